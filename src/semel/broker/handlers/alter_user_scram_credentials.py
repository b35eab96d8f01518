"""AlterUserScramCredentials (51), version 0: give users SCRAM credentials and take them away.

They are kept as Kafka keeps them and described; no listener asks for them yet. A user who is named twice, for whatever
mechanisms, is refused.
"""

from collections import Counter
from collections.abc import Iterator

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.cluster.store import ChangeRefusedError
from semel.core.metadata.rows import ScramRow
from semel.core.security import scram_credentials as scram
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from semel.errors import ErrorCode, LogError, Refuse


async def handle(
    broker: Administration, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Decide every user, then write what was decided as one change."""
    named = [(one.name, one.mechanism) for one in request.deletions]
    named += [(one.name, one.mechanism) for one in request.upsertions]
    times = Counter(user for user, _mechanism in named)
    refused: dict[str, Refuse] = {
        user: Refuse(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
        for user, _mechanism in named
        if times[user] > 1
    }
    rows: list[ScramRow] = []
    for user, decided in _decided(broker, request):
        if isinstance(decided, Refuse):
            refused.setdefault(user, decided)
        else:
            rows.append(decided)
    rows = [row for row in rows if row.user not in refused]
    if rows:
        try:
            await broker.store.commit(rows)
        except (LogError, ChangeRefusedError) as error:
            failed = Refuse(error.code, str(error))
            refused |= {row.user: failed for row in rows}
    return AlterUserScramCredentialsResponse(
        results=[_result(user, refused.get(user)) for user in dict.fromkeys(user for user, _ in named)]
    )


def _decided(
    broker: Administration, request: AlterUserScramCredentialsRequest
) -> Iterator[tuple[str, ScramRow | Refuse]]:
    for deletion in request.deletions:
        flaw = scram.flaw(deletion.name, deletion.mechanism)
        if flaw is None and (deletion.name, deletion.mechanism) not in broker.store.image.scram:
            flaw = Refuse(
                ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
            )
        yield deletion.name, flaw or ScramRow(deletion.name, deletion.mechanism, None)
    for one in request.upsertions:
        flaw = scram.flaw(one.name, one.mechanism)
        made = flaw or scram.credential(
            one.mechanism,
            iterations=one.iterations,
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        )
        yield one.name, made if isinstance(made, Refuse) else ScramRow(one.name, one.mechanism, made)


def _result(user: str, refused: Refuse | None) -> AlterUserScramCredentialsResult:
    if refused is None:
        return AlterUserScramCredentialsResult(user=user, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=refused.code, error_message=refused.reason)

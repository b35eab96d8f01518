"""AlterClientQuotas (49), versions 0-1: set and remove quotas of users, clients and addresses.

They are kept and described; nobody is held to them yet. Every entity is decided by itself, and one named twice is refused.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.cluster.store import ChangeRefusedError
from semel.core.metadata.client_quotas import Entity, after, entity_of
from semel.core.metadata.rows import ClientQuotaRow
from semel.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntryData,
)
from semel.errors import LogError, Refuse


async def handle(
    broker: Administration, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    """Decide every entity, then write what was decided as one change."""
    rows: dict[Entity, ClientQuotaRow] = {}
    results: list[AlterClientQuotasResponseEntryData] = []
    changed: list[AlterClientQuotasResponseEntryData] = []
    for entry in request.entries:
        result = AlterClientQuotasResponseEntryData(entity=entry.entity, error_message=None)
        results.append(result)
        decided = _decide(broker, entry, rows)
        if isinstance(decided, Refuse):
            result.error_code, result.error_message = decided.code, decided.reason
        else:
            rows[decided.entity] = decided
            changed.append(result)
    if rows and not request.validate_only:
        try:
            await broker.store.commit(list(rows.values()))
        except (LogError, ChangeRefusedError) as error:
            for result in changed:
                result.error_code, result.error_message = error.code, str(error)
    return AlterClientQuotasResponse(entries=results)


def _decide(
    broker: Administration, entry: EntryData, before: dict[Entity, ClientQuotaRow]
) -> ClientQuotaRow | Refuse:
    entity = entity_of([(part.entity_type, part.entity_name) for part in entry.entity])
    if isinstance(entity, Refuse):
        return entity
    kept = before[entity].values if entity in before else broker.store.image.client_quotas.get(entity, {})
    values = after(entity, kept, [(op.key, None if op.remove else op.value) for op in entry.ops])
    return values if isinstance(values, Refuse) else ClientQuotaRow(entity, values)

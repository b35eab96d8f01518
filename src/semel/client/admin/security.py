"""Calls about quotas, users and access.

Role.   The part of the admin client for access, credentials and quotas. A broker refuses requests it does not serve in its own
        words: without an authorizer it answers SECURITY_DISABLED to every question about access.
Rules.  A password never leaves this process: it is salted and hashed here, as Java's client does it.
"""

# ruff: noqa: N815 - the aliases are Java's names.

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from semel.client.admin.core import AdminCore, carried_out, names, public, settled
from semel.client.admin.tables import Answers, Listing
from semel.client.calls.routing import controller, ordered
from semel.client.values.administration import (
    AclBinding,
    AclBindingFilter,
    AclPermissionType,
    PatternType,
    QuotaEntry,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from semel.core.security.operations import AclOperation, ResourceType
from semel.core.wire.messages import alter_client_quotas as altering
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from semel.core.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.core.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from semel.core.wire.messages.describe_acls import DescribeAclsRequest
from semel.core.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from semel.core.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from semel.errors import ErrorCode, SemelError, refused
from semel.exceptions import IllegalArgumentException

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_ITERATIONS_LEAST: Final = 4096
_SALT_BYTES: Final = 26
_DIGESTS: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class SecurityCalls(AdminCore):
    """Quotas, users, access."""

    @public
    async def describe_client_quotas(
        self, entity: Mapping[str, str | None] | Sequence[str] = (), *, strict: bool = False
    ) -> Listing[QuotaEntry]:
        """Quotas: of everyone; of the entity `{"user": "alice"}` (None for the default); or of the kinds `["user"]`.

        `strict` leaves out entities that have other parts too.
        """
        if isinstance(entity, Mapping):
            components = [
                ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
                for kind, name in entity.items()
            ]
        else:
            components = [ComponentData(entity_type=kind, match_type=_ANY, match=None) for kind in entity]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        cluster = self._cluster

        async def ask() -> Listing[QuotaEntry]:
            answer = await cluster.send(request)
            if answer.error_code:
                raise refused(
                    answer.error_code, "to describe quotas", by=cluster.where, reason=answer.error_message
                )
            return Listing(
                QuotaEntry(
                    {one.entity_type: one.entity_name for one in entry.entity},
                    {one.key: one.value for one in entry.values},
                )
                for entry in answer.entries or ()
            )

        return await cluster.patiently(ask)

    @public
    async def alter_client_quotas(
        self, entries: QuotaEntry | Iterable[QuotaEntry], *, validate_only: bool = False
    ) -> None:
        """Set quotas; a value of None takes one away."""
        wanted = [entries] if isinstance(entries, QuotaEntry) else list(entries)
        request = altering.AlterClientQuotasRequest(
            entries=[
                altering.EntryData(
                    entity=[
                        altering.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in one.entity.items()
                    ],
                    ops=[
                        altering.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in one.quotas.items()
                    ],
                )
                for one in wanted
            ],
            validate_only=validate_only,
        )
        cluster = self._cluster

        async def order() -> dict[tuple[tuple[str, str | None], ...], SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster))
            results: dict[tuple[tuple[str, str | None], ...], SemelError | None] = {}
            for one in answer.entries:
                entity = tuple((part.entity_type, part.entity_name) for part in one.entity)
                results[entity] = (
                    refused(
                        one.error_code,
                        f"the quotas of {dict(entity)}",
                        by=cluster.where,
                        reason=one.error_message,
                    )
                    if one.error_code
                    else None
                )
            return results

        await carried_out(cluster, order)

    @public
    async def describe_user_scram_credentials(
        self, users: str | Iterable[str] | None = None
    ) -> Answers[str, tuple[ScramCredentialInfo, ...]]:
        """Which SCRAM credentials these users have, or everyone."""
        request = DescribeUserScramCredentialsRequest(
            users=None if users is None else [UserName(name=one) for one in names(users, "users")]
        )
        cluster = self._cluster

        async def ask() -> dict[str, tuple[ScramCredentialInfo, ...] | SemelError]:
            answer = await cluster.send(request)
            if answer.error_code:
                raise refused(
                    answer.error_code, "to describe users", by=cluster.where, reason=answer.error_message
                )
            return {
                one.user: refused(
                    one.error_code, f"to describe user {one.user}", by=cluster.where, reason=one.error_message
                )
                if one.error_code
                else tuple(
                    ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations)
                    for each in one.credential_infos
                )
                for one in answer.results
            }

        return settled(await cluster.patiently(ask))

    @public
    async def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> None:
        """Give users SCRAM credentials and take them away."""
        wanted = list(alterations)
        upsertions = [
            await self._salted(one) for one in wanted if isinstance(one, UserScramCredentialUpsertion)
        ]
        request = AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=one.user, mechanism=one.mechanism)
                for one in wanted
                if isinstance(one, UserScramCredentialDeletion)
            ],
            upsertions=upsertions,
        )
        cluster = self._cluster

        async def order() -> dict[str, SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster))
            return {
                one.user: refused(
                    one.error_code, f"to change user {one.user}", by=cluster.where, reason=one.error_message
                )
                if one.error_code
                else None
                for one in answer.results
            }

        await carried_out(cluster, order)

    async def _salted(self, one: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
        """On a thread, because thousands of rounds of hashing would hold the loop."""
        if one.iterations < _ITERATIONS_LEAST:
            raise IllegalArgumentException(f"iterations={one.iterations}: at least {_ITERATIONS_LEAST}")
        runtime = self._cluster.runtime
        salt = runtime.dice.randbytes(_SALT_BYTES) if one.salt is None else one.salt
        secret = one.password.encode() if isinstance(one.password, str) else one.password
        salted = await runtime.tasks.in_thread(
            hashlib.pbkdf2_hmac, _DIGESTS[one.mechanism], secret, salt, one.iterations
        )
        return ScramCredentialUpsertion(
            name=one.user,
            mechanism=one.mechanism,
            iterations=one.iterations,
            salt=salt,
            salted_password=salted,
        )

    @public
    async def describe_acls(self, which: AclBindingFilter = AclBindingFilter()) -> Listing[AclBinding]:  # noqa: B008 - a tuple.
        """The rules of access that match."""
        request = DescribeAclsRequest(
            resource_type_filter=which.resource_type,
            resource_name_filter=which.name,
            pattern_type_filter=which.pattern_type,
            principal_filter=which.principal,
            host_filter=which.host,
            operation=which.operation,
            permission_type=which.permission_type,
        )
        cluster = self._cluster

        async def ask() -> Listing[AclBinding]:
            answer = await cluster.send(request)
            if answer.error_code:
                raise refused(
                    answer.error_code, "to describe access", by=cluster.where, reason=answer.error_message
                )
            return Listing(
                AclBinding(
                    ResourceType(one.resource_type),
                    one.resource_name,
                    acl.principal,
                    AclOperation(acl.operation),
                    AclPermissionType(acl.permission_type),
                    acl.host,
                    PatternType(one.pattern_type),
                )
                for one in answer.resources
                for acl in one.acls
            )

        return await cluster.patiently(ask)

    @public
    async def create_acls(self, acls: Iterable[AclBinding]) -> None:
        """Allow and deny."""
        wanted = list(acls)
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=one.resource_type,
                    resource_name=one.name,
                    resource_pattern_type=one.pattern_type,
                    principal=one.principal,
                    host=one.host,
                    operation=one.operation,
                    permission_type=one.permission_type,
                )
                for one in wanted
            ]
        )
        cluster = self._cluster

        async def order() -> dict[AclBinding, SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster))
            return {
                one: refused(
                    result.error_code, f"to create {one}", by=cluster.where, reason=result.error_message
                )
                if result.error_code
                else None
                for one, result in zip(wanted, answer.results, strict=True)
            }

        await carried_out(cluster, order)

    @public
    async def delete_acls(
        self, filters: AclBindingFilter | Iterable[AclBindingFilter]
    ) -> Listing[AclBinding]:
        """Remove all matching bindings; gives the removed ones."""
        wanted = [filters] if isinstance(filters, AclBindingFilter) else list(filters)
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=one.resource_type,
                    resource_name_filter=one.name,
                    pattern_type_filter=one.pattern_type,
                    principal_filter=one.principal,
                    host_filter=one.host,
                    operation=one.operation,
                    permission_type=one.permission_type,
                )
                for one in wanted
            ]
        )
        cluster = self._cluster

        async def order() -> Listing[AclBinding]:
            answer = await cluster.send(request, node_id=await controller(cluster))
            gone: Listing[AclBinding] = Listing()
            for result in answer.filter_results:
                for number, reason in (
                    (result.error_code, result.error_message),
                    *((acl.error_code, acl.error_message) for acl in result.matching_acls),
                ):
                    if number != ErrorCode.NONE:
                        raise refused(number, "to delete access", by=cluster.where, reason=reason)
                gone += [
                    AclBinding(
                        ResourceType(acl.resource_type),
                        acl.resource_name,
                        acl.principal,
                        AclOperation(acl.operation),
                        AclPermissionType(acl.permission_type),
                        acl.host,
                        PatternType(acl.pattern_type),
                    )
                    for acl in result.matching_acls
                ]
            return gone

        return await ordered(cluster, order)

    describeClientQuotas = describe_client_quotas
    alterClientQuotas = alter_client_quotas
    describeUserScramCredentials = describe_user_scram_credentials
    alterUserScramCredentials = alter_user_scram_credentials
    describeAcls = describe_acls
    createAcls = create_acls
    deleteAcls = delete_acls

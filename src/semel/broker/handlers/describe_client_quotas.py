"""DescribeClientQuotas (48), versions 0-1: the quotas of users, clients and addresses that a filter means."""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.metadata.client_quotas import Part, filtered
from semel.core.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from semel.errors import Refuse


def handle(
    broker: Administration, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Each matching entity, with every quota set for it."""
    parts = [Part(one.entity_type, one.match_type, one.match) for one in request.components]
    found = filtered(broker.store.image.client_quotas, parts, strict=request.strict)
    if isinstance(found, Refuse):
        return DescribeClientQuotasResponse(error_code=found.code, error_message=found.reason, entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
            )
            for entity, values in found
        ],
    )

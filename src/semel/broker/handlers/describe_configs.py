"""DescribeConfigs (32), versions 1-4: settings of topics, brokers and groups, and levels of the log, with where they come from.

    3+   types, and one sentence about each setting Semel acts on

A broker is named by its number; the empty name stands for what was set for every broker while they run. A resource is some
milliseconds of work, so others have their turns between.
"""

from collections.abc import Sequence

from semel.broker import loggers
from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.reconfiguration import layers, unserved
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.metadata import topic_names
from semel.core.metadata.config_entries import Entry, broker_entries, every_broker_entries, topic_entries
from semel.core.metadata.config_types import ResourceType
from semel.core.metadata.group_configs import group_entries
from semel.core.metadata.image import DEFAULT_BROKER
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from semel.errors import ErrorCode, Refuse
from semel.net.reply import Exclusive


def handle(
    broker: Administration, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | Exclusive[DescribeConfigsResponse]:
    """Describe every resource that was asked for, or say why it cannot be."""
    return in_turns(_described_all(broker, request), broker.runtime, context.connection.peer)


def _described_all(broker: Administration, request: DescribeConfigsRequest) -> Steps[DescribeConfigsResponse]:
    turn, results = Turn(broker.runtime.clock), list[DescribeConfigsResult]()
    for resource in request.resources:
        if turn.is_over:
            yield None
            turn.begin()
        results.append(_result(broker, resource, request))
    return DescribeConfigsResponse(results=results)


def _result(
    broker: Administration, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    found = _entries(broker, resource)
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    if isinstance(found, Refuse):
        result.error_code = found.code
        result.error_message = found.reason
    else:
        result.configs = _described(found, frozenset(resource.configuration_keys or ()), request)
    return result


def _entries(broker: Administration, resource: DescribeConfigsResource) -> list[Entry] | Refuse:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        if (flaw := topic_names.flaw(name)) is not None:
            return Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {flaw}")
        if (row := broker.store.image.topic(name)) is None:
            return Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        values = broker.config.topic_values(row.configs, checked=True)
        return topic_entries(values, row.configs, layers(broker))
    if resource.resource_type == ResourceType.BROKER:
        if name == DEFAULT_BROKER:
            return every_broker_entries(layers(broker))
        return _broker_entries(broker, name)
    if resource.resource_type == ResourceType.GROUP:
        if not name:
            return Refuse(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own = broker.store.image.group_configs.get(name, {})
        return group_entries(broker.config.values, own, layers(broker))
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        return _logger_entries(broker, name)
    return unserved(resource.resource_type)


def _broker_entries(broker: Administration, name: str) -> list[Entry] | Refuse:
    try:
        number = int(name)
    except ValueError:
        return Refuse(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != broker.node_id:
        return Refuse(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}",
        )
    return broker_entries(broker.config.values, layers(broker))


def _logger_entries(broker: Administration, name: str) -> list[Entry] | Refuse:
    if not name:
        return Refuse(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if name != str(broker.node_id):
        return Refuse(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker.node_id} but received {name}"
        )
    return loggers.entries()


def _described(
    entries: Sequence[Entry], names: frozenset[str], request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    """The entries of these names; all of them if there are none."""
    return [
        DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
            synonyms=[
                DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                for synonym in (entry.synonyms if request.include_synonyms else ())
            ],
            config_type=entry.type,
            documentation=entry.documentation if request.include_documentation else None,
        )
        for entry in entries
        if not names or entry.name in names
    ]

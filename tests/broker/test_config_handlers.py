"""Settings asked for and changed over a connection must be the ones in force, at once and after the next start.

Method: a broker and a client on a simulated host, so that a start costs nothing and the power can be cut. What a change
did is looked for where it matters: in the log of the partition, in the next answer, after a restart.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.core.metadata.config_changes import Operation
from semel.core.metadata.config_types import ConfigSource, ResourceType
from semel.core.wire.message import Request, Response
from semel.core.wire.messages import alter_configs, incremental_alter_configs
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from semel.core.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import ErrorCode
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation

R = TypeVar("R", bound=Response)
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operation
SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data", "log.retention.minutes": "10"}


class Client:
    """Asks one broker for settings."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self.broker = broker
        self._connection = connection

    async def ask(self, request: Request[R]) -> R:
        last = BY_KEY[ApiKey(request.schema.api_key)].last
        return await self._connection.send(request, last, timeout_ms=10_000)

    async def create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        answer = await self.ask(CreateTopicsRequest(topics=[topic]))
        assert answer.topics[0].error_code == ErrorCode.NONE

    async def describe(
        self, kind: int, name: str, *keys: str, documented: bool = False
    ) -> DescribeConfigsResult:
        resource = DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
        )
        request = DescribeConfigsRequest(
            resources=[resource], include_synonyms=True, include_documentation=documented
        )
        return (await self.ask(request)).results[0]

    async def setting(self, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
        (found,) = (await self.describe(kind, name, key)).configs
        return found

    async def change(
        self, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
    ) -> tuple[int, str | None]:
        configs = [
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=configs
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[resource], validate_only=validate_only
        )
        (outcome,) = (await self.ask(request)).responses
        return outcome.error_code, outcome.error_message

    async def replace(self, kind: int, name: str, **settings: str) -> tuple[int, str | None]:
        configs = [
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in settings.items()
        ]
        resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        (outcome,) = (await self.ask(alter_configs.AlterConfigsRequest(resources=[resource]))).responses
        return outcome.error_code, outcome.error_message


Story = Callable[[Client], Awaitable[None]]
DONE = (ErrorCode.NONE, None)


def told(*stories: Story, cut_power: bool = False) -> None:
    """Run the stories one after the other, each with a broker started anew on what the last one left."""
    simulation = Simulation(1)

    async def main() -> None:
        for story in stories:
            host = simulation.host("127.0.0.1")
            await host.start(partial(_tell, story=story, stop=not cut_power))
            if cut_power:
                host.cut_power()
            else:
                host.kill()

    simulation.run(main())


async def _tell(runtime: Runtime, story: Story, *, stop: bool) -> None:
    broker = Broker(BrokerConfig.of(SETTINGS), runtime)
    await broker.start()
    connection = await connect(runtime, "127.0.0.1", 9092)
    await story(Client(broker, connection))
    if stop:
        connection.close()
        await broker.stop()


def test_a_topics_change_is_in_force_when_it_is_answered() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        partitions = client.broker.parts.partitions.of_topic("orders")
        assert [partition.log.config.max_message_bytes for partition in partitions] == [1048588] * 2
        assert await client.change(TOPIC, "orders", ("max.message.bytes", SET, "5000")) == DONE
        assert [partition.log.config.max_message_bytes for partition in partitions] == [5000] * 2
        found = await client.setting(TOPIC, "orders", "max.message.bytes")
        assert (found.value, found.config_source) == ("5000", ConfigSource.DYNAMIC_TOPIC)
        assert [(one.name, one.value, one.source) for one in found.synonyms] == [
            ("max.message.bytes", "5000", ConfigSource.DYNAMIC_TOPIC),
            ("message.max.bytes", "1048588", ConfigSource.DEFAULT),
        ]
        assert await client.change(TOPIC, "orders", ("max.message.bytes", DELETE, None)) == DONE
        assert [partition.log.config.max_message_bytes for partition in partitions] == [1048588] * 2

    told(story)


def test_what_is_only_validated_changes_nothing() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        assert await client.change(TOPIC, "orders", ("retention.ms", SET, "5"), validate_only=True) == DONE
        refused = await client.change(TOPIC, "orders", ("retention.ms", SET, "x"), validate_only=True)
        assert refused == (
            ErrorCode.INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        )
        found = await client.setting(TOPIC, "orders", "retention.ms")
        assert (found.value, found.config_source, found.synonyms) == ("600000", ConfigSource.DEFAULT, [])

    told(story)


def test_replacing_forgets_what_is_not_named() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        assert (
            await client.change(TOPIC, "orders", ("retention.ms", SET, "5"), ("flush.ms", SET, "6")) == DONE
        )
        assert await client.replace(TOPIC, "orders", flush_ms="7") == DONE
        row = client.broker.parts.store.image.topic("orders")
        assert row is not None
        assert row.configs == {"flush.ms": "7"}

    told(story)


def test_a_refused_resource_stops_no_other() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        names = ("orders", "missing", "bad/name", "twice", "twice")
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name=name,
                    configs=[incremental_alter_configs.AlterableConfig(name="retention.ms", value="5")],
                )
                for name in names
            ]
        )
        answer = await client.ask(request)
        assert [(one.resource_name, one.error_code) for one in answer.responses] == [
            ("orders", ErrorCode.NONE),
            ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("twice", ErrorCode.INVALID_REQUEST),
            ("twice", ErrorCode.INVALID_REQUEST),
        ]
        assert (await client.setting(TOPIC, "orders", "retention.ms")).value == "5"

    told(story)


def test_a_brokers_change_reaches_every_topic_and_one_broker_wins_over_all() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        (partition, _) = client.broker.parts.partitions.of_topic("orders")
        assert await client.change(BROKER, "", ("message.max.bytes", SET, "3000")) == DONE
        assert partition.log.config.max_message_bytes == 3000
        assert await client.change(BROKER, "1", ("message.max.bytes", SET, "2000")) == DONE
        assert partition.log.config.max_message_bytes == 2000
        assert client.broker.parts.config.message_max_bytes == 2000
        found = await client.setting(TOPIC, "orders", "max.message.bytes")
        assert [(one.value, one.source) for one in found.synonyms] == [
            ("2000", ConfigSource.DYNAMIC_BROKER),
            ("3000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            ("1048588", ConfigSource.DEFAULT),
        ]
        assert await client.change(BROKER, "1", ("message.max.bytes", DELETE, None)) == DONE
        assert partition.log.config.max_message_bytes == 3000
        everywhere = await client.describe(BROKER, "")
        assert [(one.name, one.value) for one in everywhere.configs] == [("message.max.bytes", "3000")]
        await client.create("later")
        (later, _) = client.broker.parts.partitions.of_topic("later")
        assert later.log.config.max_message_bytes == 3000

    told(story)


def test_two_changes_of_one_request_are_held_against_each_other() -> None:
    async def story(client: Client) -> None:
        lags = {"": "log.cleaner.max.compaction.lag.ms", "1": "log.cleaner.min.compaction.lag.ms"}
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=BROKER,
                    resource_name=broker,
                    configs=[incremental_alter_configs.AlterableConfig(name=name, value=value)],
                )
                for (broker, name), value in zip(lags.items(), ("4", "5"), strict=True)
            ]
        )
        answer = await client.ask(request)
        assert [one.error_code for one in answer.responses] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert client.broker.parts.config.value("log.cleaner.max.compaction.lag.ms") == 4

    told(story)


@pytest.mark.parametrize("cut_power", [False, True], ids=["clean stop", "power cut"])
def test_an_answered_change_survives(cut_power: bool) -> None:
    async def change(client: Client) -> None:
        await client.create("orders")
        assert await client.change(TOPIC, "orders", ("segment.ms", SET, "5000")) == DONE
        assert await client.change(BROKER, "1", ("log.retention.ms", SET, "7000")) == DONE

    async def look(client: Client) -> None:
        (partition, _) = client.broker.parts.partitions.of_topic("orders")
        assert (partition.log.config.segment_ms, partition.log.config.retention_ms) == (5000, 7000)
        minutes = await client.setting(BROKER, "1", "log.retention.minutes")
        assert (minutes.value, minutes.synonyms[0].value) == (None, "10")

    told(change, look, cut_power=cut_power)


def test_a_broker_describes_itself_without_its_secrets() -> None:
    async def story(client: Client) -> None:
        secret = "listener.name.plaintext.ssl.key.password"
        assert await client.change(BROKER, "1", (secret, SET, "open sesame")) == DONE
        described = {one.name: one for one in (await client.describe(BROKER, "1", documented=True)).configs}
        assert len(described) > 300
        assert described["num.partitions"].read_only
        assert not described["message.max.bytes"].read_only
        assert described["message.max.bytes"].documentation
        assert described["log.retention.minutes"].config_source == ConfigSource.STATIC_BROKER
        assert described[secret].is_sensitive
        assert described[secret].value is None
        assert [one.value for one in described[secret].synonyms] == [None]

    told(story)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_there_is_neither_described_nor_changed(kind: int, name: str, code: ErrorCode) -> None:
    async def story(client: Client) -> None:
        described = await client.describe(kind, name)
        assert (described.error_code, described.configs) == (code, [])
        refused, _ = await client.change(kind, name, ("message.max.bytes", DELETE, None))
        assert refused == code

    told(story)


def test_resources_are_listed_by_kind() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        everything = await client.ask(ListConfigResourcesRequest())
        assert [(one.resource_type, one.resource_name) for one in everything.config_resources] == [
            (BROKER, "1"),
            (TOPIC, "orders"),
            (ResourceType.BROKER_LOGGER, "1"),
        ]
        topics = await client.ask(ListConfigResourcesRequest(resource_types=[TOPIC]))
        assert [one.resource_name for one in topics.config_resources] == ["orders"]
        unknown = await client.ask(ListConfigResourcesRequest(resource_types=[77]))
        assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION

    told(story)

"""Every answer about settings must be Kafka's, down to the words.

Method: a broker of Apache Kafka and one of ours on the very same server.properties get the same table of requests, good and
bad, one after the other. Answers are compared whole; only what is meant to differ is set aside: five defaults of our own,
and listeners, which here do not change while the broker runs.
"""

import socket
import struct
import time
from pathlib import Path
from typing import Any, Final

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.core.metadata.config_changes import Operation
from semel.core.metadata.config_types import ConfigSource, ResourceType
from semel.core.wire import framing
from semel.core.wire.message import Message, Request
from semel.core.wire.messages import alter_configs, describe_configs, incremental_alter_configs
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from semel.core.wire.messages.describe_configs import DescribeConfigsResponse
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.net.connection import connect
from semel.peers.kafka import KafkaHome
from semel.runtime.simulation import simulated_runtime

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
SET, DELETE, APPEND, SUBTRACT = Operation
OUR_DEFAULTS: Final = {"node.id", "process.roles", "controller.listener.names", "listeners", "log.dir"}
FIXED_HERE: Final = {"listeners", "listener.security.protocol.map"}
SETTINGS: Final = {
    "num.partitions": "2",
    "log.retention.minutes": "600",
    "log.cleaner.min.cleanable.ratio": "0.30",
    "ssl.key.password": "open sesame",
}
PATIENCE_SECONDS: Final = 15.0
REPLICAS: Final = "leader.replication.throttled.replicas"
LONG_LIST: Final = ",".join(f"{number}:1" for number in range(4800))[: 32_767 - 9].rpartition(",")[0]

Asked = Request[Any]
Change = tuple[str, int, str | None]


def describe(*resources: tuple[int, str, list[str] | None], synonyms: bool = True) -> Asked:
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
    )


def change(kind: int, name: str, *changes: Change, validate_only: bool = False) -> Asked:
    return changes_of([(kind, name, changes)], validate_only=validate_only)


def changes_of(resources: list[tuple[int, str, tuple[Change, ...]]], *, validate_only: bool = False) -> Asked:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def replace(kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False) -> Asked:
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in settings]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=validate_only)


POLICY: Final = describe((TOPIC, "orders", ["cleanup.policy"]))
SIZES: Final = describe(
    (BROKER, "1", ["message.max.bytes"]), (BROKER, "", None), (TOPIC, "orders", ["max.message.bytes"])
)
TABLE: Final[tuple[tuple[Asked, int], ...]] = (
    # Kafka keeps this one setting for every broker by itself.
    (change(BROKER, "", ("min.insync.replicas", SET, "1")), 1),
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)], timeout_ms=30_000
        ),
        4,
    ),
    *((describe((TOPIC, "orders", None)), version) for version in (1, 2, 3, 4)),
    (describe((TOPIC, "orders", []), synonyms=False), 4),
    (describe((BROKER, "1", None), (BROKER, "", None)), 4),
    (describe((TOPIC, "orders", ["retention.ms", "colour"]), (TOPIC, "orders", ["flush.ms"])), 4),
    (describe((TOPIC, "missing", None), (TOPIC, "bad/name", None), (TOPIC, "", None)), 4),
    (describe((BROKER, "2", None), (BROKER, "x", None), (BROKER, "01", ["num.partitions"])), 4),
    (describe(), 4),
    # One setting at a time.
    (change(TOPIC, "orders", ("retention.ms", SET, "1000"), validate_only=True), 1),
    (describe((TOPIC, "orders", ["retention.ms"])), 4),
    (change(TOPIC, "orders", ("retention.ms", SET, " 1000 "), ("segment.bytes", SET, "1048576")), 0),
    (change(TOPIC, "orders", ("min.cleanable.dirty.ratio", SET, "0.10")), 1),
    (describe((TOPIC, "orders", ["retention.ms", "segment.bytes", "min.cleanable.dirty.ratio"])), 4),
    *(
        (change(TOPIC, "orders", *changes), 1)
        for changes in (
            [("retention.ms", SET, "-2")],
            [("retention.ms", SET, "x")],
            [("retention.ms", SET, "")],
            [("preallocate", SET, "yes")],
            [("compression.type", SET, "brotli")],
            [("remote.storage.enable", SET, "true")],
            [("leader.replication.throttled.replicas", SET, "a")],
            [("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")],
            [("colour", SET, "red")],
            [("colour", DELETE, None)],
            [("colour", APPEND, "red")],
            [("retention.ms", APPEND, "5")],
            [("retention.ms", SUBTRACT, "5")],
            [("retention.ms", SET, None), ("cleanup.policy", APPEND, None)],
            [("retention.ms", SET, None), ("retention.ms", SET, "5")],
            [],
            [("internal.segment.bytes", SET, "100000")],
        )
    ),
    (describe((TOPIC, "orders", ["internal.segment.bytes", "segment.bytes"])), 4),
    *(
        step
        for operation, value in (
            (APPEND, "compact"),
            (APPEND, "compact"),
            (SUBTRACT, "delete"),
            (SUBTRACT, "compact"),
            (SUBTRACT, "colour"),
            (APPEND, "colour"),
            (APPEND, "compact,delete"),
            (SET, ""),
            (DELETE, None),
        )
        for step in ((change(TOPIC, "orders", ("cleanup.policy", operation, value)), 1), (POLICY, 4))
    ),
    (changes_of([(TOPIC, "orders", ()), (TOPIC, "orders", ())]), 1),
    (
        changes_of(
            [
                (TOPIC, "orders", (("retention.ms", SET, "5"),)),
                (TOPIC, "missing", (("retention.ms", SET, "5"),)),
                (TOPIC, "bad/name", (("retention.ms", SET, "5"),)),
                (TOPIC, "", (("retention.ms", SET, "5"),)),
            ]
        ),
        1,
    ),
    (change(TOPIC, "missing", ("retention.ms", SET, "-2")), 1),
    # A list as long as an answer can say, and one that would be longer.
    (change(TOPIC, "orders", (REPLICAS, SET, LONG_LIST)), 1),
    (change(TOPIC, "orders", (REPLICAS, APPEND, "5000:1,5001:1,5002:1")), 1),
    (change(TOPIC, "orders", (REPLICAS, APPEND, "5000:1")), 1),
    (change(TOPIC, "orders", (REPLICAS, SUBTRACT, LONG_LIST.partition(",")[2])), 1),
    (describe((TOPIC, "orders", [REPLICAS])), 4),
    # A broker's, for one and for all.
    (change(BROKER, "1", ("message.max.bytes", SET, "2000")), 1),
    (change(BROKER, "", ("message.max.bytes", SET, "3000")), 1),
    (SIZES, 4),
    (change(BROKER, "1", ("message.max.bytes", DELETE, None)), 1),
    (SIZES, 4),
    (change(BROKER, "1", ("log.retention.ms", SET, "300")), 1),
    (describe((BROKER, "1", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])), 4),
    (describe((TOPIC, "orders", ["retention.ms"])), 4),
    (change(BROKER, "1", ("leader.replication.throttled.rate", SET, "300")), 1),
    (describe((BROKER, "1", ["leader.replication.throttled.rate"])), 4),
    *(
        (change(BROKER, name, change_), 1)
        for name, change_ in (
            ("1", ("num.partitions", SET, "3")),
            ("", ("num.partitions", SET, "3")),
            ("1", ("message.max.bytes", SET, "-3")),
            ("1", ("message.max.bytes", SET, "x")),
            ("1", ("compression.type", SET, "brotli")),
            ("1", ("ssl.keystore.location", SET, "x")),
            ("", ("ssl.client.auth", SET, "none")),
            ("2", ("message.max.bytes", SET, "3")),
            ("x", ("message.max.bytes", SET, "3")),
            ("1", ("num.partitions", DELETE, None)),
        )
    ),
    (change(77, "x", ("a", SET, "5")), 1),
    # Everything at once.
    (replace(TOPIC, "orders", ("retention.ms", "777")), 2),
    (replace(TOPIC, "orders", ("segment.bytes", "1048576"), validate_only=True), 1),
    (describe((TOPIC, "orders", None)), 4),
    *(
        (replace(kind, name, *settings), version)
        for version, kind, name, settings in (
            (0, TOPIC, "orders", [("segment.bytes", "1048576")]),
            (1, TOPIC, "orders", [("segment.bytes", None)]),
            (2, TOPIC, "orders", [("segment.bytes", "1")]),
            (2, TOPIC, "orders", [("colour", "red")]),
            (2, TOPIC, "orders", [("retention.ms", "7"), ("retention.ms", "8")]),
            (2, TOPIC, "missing", [("segment.bytes", "1048576")]),
            (2, BROKER, "1", [("message.max.bytes", "12345")]),
            (2, BROKER, "2", []),
            (2, BROKER, "1", [("num.partitions", "3")]),
            (2, 77, "x", []),
        )
    ),
    (describe((TOPIC, "orders", ["retention.ms", "segment.bytes", "max.message.bytes"])), 4),
)


@pytest.mark.java
def test_every_answer_about_settings_is_kafkas(kafka_home: KafkaHome, tmp_path: Path) -> None:
    with kafka_home.broker(tmp_path, **SETTINGS) as kafka:
        lines = (tmp_path / "server.properties").read_text(encoding="utf-8").splitlines()
        properties = dict(line.split("=", 1) for line in lines)
        mine = ours(properties)
        with socket.create_connection(("127.0.0.1", kafka.port), timeout=PATIENCE_SECONDS) as connection:
            for (request, version), expected in zip(TABLE, mine, strict=True):
                answer = theirs_once_settled(connection, request, version, expected)
                assert answer == expected, f"{request} in version {version}"


def ours(properties: dict[str, str]) -> list[Any]:
    """Our answers to the whole table, from a broker on the same properties."""
    simulation, runtime = simulated_runtime(1)
    config = BrokerConfig.of(properties)

    async def main() -> list[Any]:
        broker = Broker(config, runtime)
        await broker.start()
        connection = await connect(runtime, config.host, config.port)
        answers = [await connection.send(request, version, timeout_ms=10_000) for request, version in TABLE]
        connection.close()
        await broker.stop()
        return [comparable(answer) for answer in answers]

    return simulation.run(main())


def theirs_once_settled(connection: socket.socket, request: Asked, version: int, expected: Any) -> Any:
    """Kafka's answer. It takes settings over a moment after it said so: a description is asked for until it holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = comparable(ask(connection, request, version))
        is_description = isinstance(request, describe_configs.DescribeConfigsRequest)
        if answer == expected or not is_description or time.monotonic() > deadline:
            return answer


def comparable(answer: Message) -> Any:
    """An answer without what is meant to differ."""
    if isinstance(answer, CreateTopicsResponse):
        return [topic.error_code for topic in answer.topics]
    if not isinstance(answer, DescribeConfigsResponse):
        return answer
    return [
        (
            (result.error_code, result.error_message, result.resource_type, result.resource_name),
            {config.name: described(config) for config in result.configs},
        )
        for result in answer.results
    ]


def described(config: describe_configs.DescribeConfigsResourceResult) -> tuple[Any, ...]:
    is_ours = config.name in OUR_DEFAULTS and config.config_source == ConfigSource.DEFAULT
    return (
        None if is_ours else config.value,
        None if config.name in FIXED_HERE else config.read_only,
        config.config_source,
        config.is_sensitive,
        config.config_type,
        config.documentation,
        [
            (one.name, one.value, one.source)
            for one in config.synonyms
            if one.name not in OUR_DEFAULTS or one.source != ConfigSource.DEFAULT
        ],
    )


def ask(connection: socket.socket, request: Asked, version: int) -> Message:
    api = BY_KEY[ApiKey(request.schema.api_key)]
    connection.sendall(framing.request_frame(framing.RequestHeader(api.key, version, 1, "test"), request))
    frame = receive(connection, struct.unpack(">i", receive(connection, 4))[0])
    _, position = framing.read_response_header(frame, api.response_header(version))
    return api.response.decode(frame, version, position)


def receive(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = connection.recv(size - len(content))
        assert more, "Kafka hung up"
        content += more
    return content

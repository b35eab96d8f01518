"""The clients' settings: Kafka's keys, types, defaults and refusals, in Python's words and in Java's.

Method: a small program prints what Kafka's own clients have and what they make of settings given together; ours are held
against it, and what is meant to differ is listed. The rows of the mission are tried one by one, with their exact texts.
"""

import json
import logging
import uuid
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from semel import Producer
from semel.client.config import ClientConfig
from semel.client.config_keys import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS, Given
from semel.client.security_keys import is_security
from semel.client.serializers import plain, unchanged
from semel.client.settings import AdminConfig, ConsumerConfig, ProducerConfig, Settings, without_effect
from semel.core.metadata.config_types import ConfigKey
from semel.exceptions import ConfigException, IllegalStateException, KafkaException, SerializationException
from semel.peers.kafka import KafkaHome
from semel.types import Address

PROGRAM: Final = str(Path(__file__).parents[1] / "java" / "ClientConfigs.java")
TABLES: Final = {"producer": PRODUCER_KEYS, "consumer": CONSUMER_KEYS, "admin": ADMIN_KEYS}
KINDS: Final[dict[str, type[Settings]]] = {
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
    "admin": AdminConfig,
}
OUR_KEYS: Final = {"sequence.error.policy", "sasl.username", "sasl.password"}
OUR_DEFAULTS: Final = {
    "isolation.level": "read_committed",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
LOCAL: Final = "127.0.0.1:1"
STRINGS: Final = "org.apache.kafka.common.serialization.StringSerializer"


def producer(**settings: Given) -> ProducerConfig:
    return ProducerConfig.of(bootstrap_servers=LOCAL, **settings)


def consumer(**settings: Given) -> ConsumerConfig:
    return ConsumerConfig.of(bootstrap_servers=LOCAL, **settings)


# Beside Kafka's own


@pytest.mark.java
def test_every_key_is_kafkas(kafka_home: KafkaHome) -> None:
    rows = [json.loads(line) for line in kafka_home.run(PROGRAM).splitlines()]
    for kind, table in TABLES.items():
        theirs = {
            row["name"]: row
            for row in rows
            if row["kind"] == kind and (row["name"] in table or not is_security(row["name"]))
        }
        ours = {name: key for name, key in table.items() if name not in OUR_KEYS}
        assert sorted(ours) == sorted(theirs)
        for name, key in ours.items():
            assert described(key) == expected(theirs[name]), name


def described(key: ConfigKey) -> tuple[object, ...]:
    return key.type.name, key.default, key.importance.value, key.internal


def expected(row: dict[str, Any]) -> tuple[object, ...]:
    default = OUR_DEFAULTS.get(row["name"], row["default"])
    if row["name"] == "partition.assignment.strategy":
        default = default.replace("class ", "")
    return row["type"], default, row["importance"], row["internal"]


PROBES: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("producer", {}),
    ("producer", {"acks": "1"}),
    ("producer", {"acks": "2"}),
    ("producer", {"acks": "0", "enable.idempotence": "true"}),
    ("producer", {"acks": "1", "transactional.id": "t"}),
    ("producer", {"retries": "0"}),
    ("producer", {"retries": "0", "enable.idempotence": "true"}),
    ("producer", {"retries": "-1"}),
    ("producer", {"enable.idempotence": "false", "transactional.id": "t"}),
    ("producer", {"enable.idempotence": "maybe"}),
    ("producer", {"transactional.id": ""}),
    ("producer", {"transactional.id": "t", "client.id": "me"}),
    ("producer", {"delivery.timeout.ms": "100"}),
    ("producer", {"max.in.flight.requests.per.connection": "0"}),
    ("producer", {"max.in.flight.requests.per.connection": "6", "enable.idempotence": "false"}),
    ("producer", {"linger.ms": "soon"}),
    ("producer", {"batch.size": "-1"}),
    ("producer", {"compression.type": "brotli"}),
    ("producer", {"compression.gzip.level": "10"}),
    ("producer", {"reconnect.backoff.ms": "5000"}),
    (
        "producer",
        {
            "transaction.two.phase.commit.enable": "true",
            "transaction.timeout.ms": "5",
            "transactional.id": "t",
        },
    ),
    ("consumer", {}),
    ("consumer", {"group.id": "g"}),
    ("consumer", {"group.id": ""}),
    ("consumer", {"enable.auto.commit": "true"}),
    ("consumer", {"group.id": "g", "group.instance.id": "i"}),
    ("consumer", {"group.id": "g", "group.protocol": "consumer", "session.timeout.ms": "9000"}),
    ("consumer", {"group.id": "g", "group.protocol": "consumer", "heartbeat.interval.ms": "9"}),
    ("consumer", {"group.id": "g", "group.protocol": "consumer", "group.remote.assignor": "uniform"}),
    ("consumer", {"group.id": "g", "group.remote.assignor": "uniform"}),
    ("consumer", {"group.id": "g", "auto.offset.reset": "smallest"}),
    ("consumer", {"group.id": "g", "auto.offset.reset": "by_duration:P1DT2H3M4.5S"}),
    ("consumer", {"group.id": "g", "auto.offset.reset": "by_duration:P"}),
    ("consumer", {"group.id": "g", "auto.offset.reset": "by_duration:-P1D"}),
    ("consumer", {"group.id": "g", "max.poll.records": "0"}),
    ("admin", {}),
    ("admin", {"default.api.timeout.ms": "100"}),
)
NOT_COMPARED: Final = {
    "client.id",
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
}


@pytest.mark.java
def test_settings_together_give_what_java_gives(kafka_home: KafkaHome) -> None:
    asked = "".join(f"{kind}\t{json.dumps(settings)}\n" for kind, settings in PROBES)
    answers = kafka_home.run(PROGRAM, "probe", stdin=asked).splitlines()
    for (kind, settings), answer in zip(PROBES, answers, strict=True):
        ours, refused = outcome(kind, settings)
        if refused is not None:
            assert f"refused\t{refused}".startswith(answer), settings  # Ours may go on, with a way out.
            continue
        assert not answer.startswith("refused"), (settings, answer)
        theirs = json.loads(answer)
        for name in sorted(set(ours) - NOT_COMPARED - OUR_KEYS):
            wanted = OUR_DEFAULTS.get(name, theirs[name])
            assert java_text(ours[name]) == wanted.replace("class ", ""), (settings, name)


def outcome(kind: str, settings: dict[str, str]) -> tuple[dict[str, Any], str | None]:
    """What holds, or why it is refused."""
    try:
        return KINDS[kind].of({"bootstrap.servers": LOCAL, **settings}).effective(), None
    except KafkaException as error:
        return {}, str(error)


def java_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


# The mission's rows


@pytest.mark.mission("CFG-01", "CFG-02", "CFG-04", "CFG-07")
def test_idempotence_is_the_default_and_brings_its_companions() -> None:
    with Producer({"bootstrap.servers": LOCAL}) as made:
        shown = made.config
    wanted = {
        "enable.idempotence": True,
        "acks": "-1",
        "retries": 2147483647,
        "max.in.flight.requests.per.connection": 5,
    }
    assert {key: shown[key] for key in wanted} == wanted
    dotted = ProducerConfig.of({"bootstrap.servers": LOCAL, ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG: "true"})
    keyword = producer(enable_idempotence=True)
    assert dotted.enable_idempotence is keyword.enable_idempotence is True
    assert producer(enable_idempotence="false").enable_idempotence is False


@pytest.mark.mission("CFG-03")
def test_no_retries_and_idempotence() -> None:
    with pytest.raises(ConfigException) as caught:
        Producer(bootstrap_servers=LOCAL, enable_idempotence=True, retries=0)
    assert str(caught.value) == "Must set retries to non-zero when using the idempotent producer."


@pytest.mark.mission("CFG-05")
def test_more_than_five_in_flight_and_idempotence() -> None:
    with pytest.raises(ConfigException) as caught:
        Producer(bootstrap_servers=LOCAL, enable_idempotence=True, max_in_flight_requests_per_connection=6)
    assert str(caught.value) == (
        "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
    )
    for number in range(1, 6):
        made = producer(enable_idempotence=True, max_in_flight_requests_per_connection=number)
        assert made.max_in_flight_requests_per_connection == number
    with pytest.raises(ConfigException, match="at most 5"):
        producer(transactional_id="t", max_in_flight_requests_per_connection=6)


@pytest.mark.mission("CFG-06", "R-06", "R-07", "R-08")
@pytest.mark.parametrize("acks", ["0", "1", 0, 1])
def test_fewer_acks_and_idempotence(acks: str | int) -> None:
    with pytest.raises(ConfigException) as caught:
        Producer(bootstrap_servers=LOCAL, enable_idempotence=True, acks=acks)
    assert str(caught.value) == (
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
    )


@pytest.mark.mission("CFG-06", "R-08")
@pytest.mark.parametrize("acks", ["all", "-1", -1, "ALL"])
def test_all_acks_and_idempotence(acks: str | int) -> None:
    made = producer(enable_idempotence=True, acks=acks)
    assert (made.acks, made.effective()["acks"]) == (-1, "-1")


@pytest.mark.mission("CFG-01", "CFG-06", "R-06")
@pytest.mark.parametrize(
    "against", [{"acks": "1"}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_idempotence_nobody_asked_for_yields_with_a_warning(
    against: dict[str, Given], caplog: pytest.LogCaptureFixture
) -> None:
    assert producer(**against).enable_idempotence is False
    (said,) = caplog.messages
    assert said.startswith("Idempotence is switched off because of ")
    assert next(iter(against)).replace("_", ".") in said


@pytest.mark.mission("CFG-08", "CFG-09", "CFG-31", "TXN-16", "R-09")
def test_four_combinations_of_idempotence_and_transactional_id() -> None:
    alone, both, neither = (
        producer(enable_idempotence=True),
        producer(enable_idempotence=True, transactional_id="t"),
        producer(enable_idempotence=False),
    )
    assert (alone.enable_idempotence, alone.transactional_id) == (True, None)
    assert (both.enable_idempotence, both.transactional_id) == (True, "t")
    assert (neither.enable_idempotence, neither.transactional_id) == (False, None)
    with pytest.raises(ConfigException) as caught:
        producer(enable_idempotence=False, transactional_id="t")
    assert str(caught.value) == "Cannot set a transactional.id without also enabling idempotence."
    assert producer(transactional_id="t").enable_idempotence is True  # Implied.
    with Producer(bootstrap_servers=LOCAL, enable_idempotence=True) as made:
        for call in (made.init_transactions, made.begin_transaction, made.commit_transaction):
            with pytest.raises(IllegalStateException) as refused:
                call()
            assert (
                str(refused.value)
                == "Transactional method invoked on a non-transactional producer: set transactional.id."
            )


@pytest.mark.mission("CFG-30")
def test_the_basic_configuration_has_four_keys_and_adjusts_the_rest() -> None:
    shown = ProducerConfig.of(
        {
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG: "localhost:9092",
            ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG: STRINGS,
            ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG: STRINGS,
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG: True,
        }
    ).effective()
    assert (shown["acks"], shown["retries"]) == ("-1", 2147483647)
    assert shown["max.in.flight.requests.per.connection"] == 5


@pytest.mark.mission("CFG-12")
def test_serializers_are_callables_or_javas_names() -> None:
    named = producer(key_serializer=STRINGS, value_serializer=lambda value: json.dumps(value).encode())
    assert named.key_serializer("schlüssel") == "schlüssel".encode()
    assert named.value_serializer({"a": 1}) == b'{"a": 1}'
    assert named.effective()["key.serializer"] == STRINGS
    plainly = producer()
    assert plainly.key_serializer is plain
    assert [plain("ü"), plain(b"x"), plain(bytearray(b"y"))] == ["ü".encode(), b"x", b"y"]
    with pytest.raises(SerializationException, match="value=1: an int is neither bytes nor text"):
        plain(1)
    with pytest.raises(
        ConfigException, match=r"com\.example\.Mine: use a callable, or one of ByteArraySerializer"
    ):
        producer(key_serializer="com.example.Mine")


@pytest.mark.mission("CFG-13")
def test_deserializers_are_callables_or_javas_names() -> None:
    name = STRINGS.replace("Serializer", "Deserializer")
    named = ConsumerConfig.of(
        {"bootstrap.servers": LOCAL, "key.deserializer": name, "value.deserializer": json.loads}
    )
    assert named.key_deserializer("ü".encode()) == "ü"
    assert named.value_deserializer(b'{"a": 1}') == {"a": 1}
    assert consumer().value_deserializer is unchanged
    with pytest.raises(SerializationException, match="is no UTF-8"):
        named.key_deserializer(b"\xff")
    with pytest.raises(ConfigException, match="use a callable, or one of"):
        consumer(key_deserializer=STRINGS)  # A serializer's name.


@pytest.mark.parametrize(
    ("kind", "value", "content"),
    [
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 1, b"\0\0\0\1"),
        ("Long", 2**40, b"\0\0\1\0\0\0\0\0"),
        ("Double", 0.5, b"\x3f\xe0\0\0\0\0\0\0"),
        ("Float", 0.5, b"\x3f\0\0\0"),
        ("Boolean", True, b"\x01"),
        ("ByteArray", b"raw", b"raw"),
        ("UUID", uuid.UUID(int=7), b"00000000-0000-0000-0000-000000000007"),
    ],
)
def test_built_in_serializers_write_javas_bytes(kind: str, value: object, content: bytes) -> None:
    package = "org.apache.kafka.common.serialization."
    assert producer(value_serializer=f"{package}{kind}Serializer").value_serializer(value) == content
    assert consumer(value_deserializer=f"{kind}Deserializer").value_deserializer(content) == value
    with pytest.raises(SerializationException):
        producer(value_serializer=f"{kind}Serializer").value_serializer(object())


@pytest.mark.mission("CFG-19", "R-47")
@pytest.mark.parametrize("name", ["transaction.id", "transation.id", "transaction id", "transaction_id"])
def test_a_misspelt_transactional_id(name: str) -> None:
    with pytest.raises(ConfigException) as caught:
        ProducerConfig.of({"bootstrap.servers": LOCAL, name: "first-transactional"})
    assert str(caught.value) == f"{name} is not a setting of a producer: did you mean transactional.id?"
    assert producer(transactional_id="first-transactional").transactional_id == "first-transactional"


@pytest.mark.mission("R-44")
def test_the_key_of_requests_in_flight() -> None:
    with pytest.raises(ConfigException) as caught:
        ProducerConfig.of({"bootstrap.servers": LOCAL, "max.inflight.requests": 5})
    assert str(caught.value) == (
        "max.inflight.requests is not a setting of a producer: did you mean max.in.flight.requests.per.connection?"
    )


@pytest.mark.mission("CFG-21", "R-50")
@pytest.mark.parametrize(
    ("given", "holds"),
    [
        (None, "read_committed"),
        ("read_uncommitted", "read_uncommitted"),
        ("READ_COMMITTED", "read_committed"),
        ("Read_Uncommitted", "read_uncommitted"),
    ],
)
def test_isolation_levels(given: str | None, holds: str) -> None:
    assert consumer(isolation_level=given).isolation_level == holds


@pytest.mark.mission("CFG-22", "R-11")
def test_the_key_of_automatic_commits() -> None:
    assert consumer(group_id="g").enable_auto_commit is True
    assert consumer(group_id="g", enable_auto_commit="false").enable_auto_commit is False
    for name in ("auto.commit.commit", "auto.commit", "auto_commit"):
        with pytest.raises(ConfigException) as caught:
            ConsumerConfig.of({"bootstrap.servers": LOCAL, name: "true"})
        assert str(caught.value) == f"{name} is not a setting of a consumer: did you mean enable.auto.commit?"


def test_defaults_of_what_the_seeds_name() -> None:
    shown = producer()
    assert (shown.linger_ms, shown.buffer_memory, shown.batch_size) == (5, 33554432, 16384)
    read = consumer(group_id="g")
    assert (read.session_timeout_ms, read.auto_commit_interval_ms) == (45_000, 5_000)


# Reading


def test_a_list_of_servers_in_any_shape() -> None:
    wanted = (Address("a", 1), Address("b", 2))
    for given in ("a:1,b:2", "a:1 , b:2", ["a:1", "b:2"], ("a:1", "b:2")):
        assert ProducerConfig.of(bootstrap_servers=given).bootstrap_servers == wanted
    with pytest.raises(ConfigException, match=r'Missing required configuration "bootstrap\.servers"'):
        AdminConfig.of({})
    with pytest.raises(ConfigException, match="'localhost' is not an address of a broker"):
        AdminConfig.of(bootstrap_servers="localhost")


def test_a_setting_given_twice() -> None:
    assert ProducerConfig.of({"bootstrap.servers": LOCAL, "linger.ms": 7, "linger_ms": "7"}).linger_ms == 7
    with pytest.raises(ConfigException, match="say different things: keep one"):
        ProducerConfig.of({"bootstrap.servers": LOCAL, "linger.ms": 7}, linger_ms=8)
    with pytest.raises(ConfigException, match="linger_ms is given twice, as 1 and 2"):
        ProducerConfig.of({"bootstrap.servers": LOCAL, "linger_ms": 1}, linger_ms=2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group.id": "g"}, "group.id is a setting of a consumer, not of a producer: leave it out"),
        ({"zzz": 1}, "zzz is not a setting of a producer; help(semel.ProducerConfig) lists them all"),
        ({"ssl.provider": "x"}, "ssl.provider is not a setting: those that begin with ssl. are"),
        ({"sasl_login_class": "x"}, "sasl_login_class is not a setting: those that begin with sasl. are"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI: not there; use PLAIN"),
        ({"interceptor.classes": "x"}, "interceptor.classes=x: not there; wrap send or poll instead"),
        ({"linger.ms": print}, "a callable cannot be the value of this setting"),
        ({"linger.ms": [1]}, "a list cannot be the value of this setting"),
        ({"linger.ms": 0.5}, "Invalid value 0.5 for configuration linger.ms: Not a number of type LONG"),
        ({"metric.reporters": "x.Y"}, "metric.reporters=x.Y: use callables that take a mapping of metrics"),
    ],
)
def test_what_is_refused_says_why(settings: dict[str, Given], said: str) -> None:
    with pytest.raises(ConfigException) as caught:
        ProducerConfig.of({"bootstrap.servers": LOCAL, **settings})
    assert said in str(caught.value)


def test_a_key_without_effect_is_named(caplog: pytest.LogCaptureFixture) -> None:
    producer(**{"client.dns.lookup": "use_all_dns_ips", "security.protocol": "plaintext"})
    assert caplog.messages == ["client.dns.lookup=use_all_dns_ips changes nothing in this producer"]


def test_a_delivery_shorter_than_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert producer(request_timeout_ms=300_000).delivery_timeout_ms == 300_005
    assert "linger.ms + request.timeout.ms = 300005" in caplog.text


def test_assignors_by_either_name() -> None:
    named = consumer(group_id="g", partition_assignment_strategy=["roundrobin", "StickyAssignor"])
    assert named.partition_assignment_strategy == ("roundrobin", "sticky")
    java = "org.apache.kafka.clients.consumer."
    shown = named.effective()["partition.assignment.strategy"]
    assert shown == [java + "RoundRobinAssignor", java + "StickyAssignor"]
    with pytest.raises(ConfigException, match=r"partition\.assignment\.strategy=mine: use range, roundrobin"):
        consumer(group_id="g", partition_assignment_strategy="mine")


def test_a_heartbeat_within_its_session() -> None:
    with pytest.raises(ConfigException, match=r"must be lower than session\.timeout\.ms=45000"):
        consumer(group_id="g", heartbeat_interval_ms=45_000)


def test_the_level_of_a_codec_only_where_it_was_asked_for() -> None:
    assert producer(compression_type="zstd").compression_level is None
    assert producer(compression_type="zstd", compression_zstd_level=7).compression_level == 7
    assert producer(compression_type="lz4", compression_zstd_level=7).compression_level is None


SOURCES: Final = Path(__file__).parents[2] / "src" / "semel"
READ_IN: Final[dict[type[Settings], tuple[str, ...]]] = {
    ProducerConfig: ("client/producer", "client/sync/producer.py"),
    ConsumerConfig: ("client/consumer", "client/sync/consumer.py"),
    AdminConfig: ("client/admin",),
}


@pytest.mark.parametrize("kind", READ_IN)
def test_a_setting_that_is_said_to_have_an_effect_is_read_by_its_client(kind: type[Settings]) -> None:
    shared = ("client/cluster.py", "client/client_metrics.py", "net/link.py")
    files = [path for place in (*READ_IN[kind], *shared) for path in sorted(_python_files(SOURCES / place))]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    own = {"values", "given"}
    unread = [one.name for one in fields(kind) if one.name not in own and f".{one.name}" not in code]
    assert unread == []


def _python_files(place: Path) -> list[Path]:
    return list(place.rglob("*.py")) if place.is_dir() else [place]


def test_client_ids_are_made_as_in_java() -> None:
    first, second = producer().client_id, producer().client_id
    assert (first[:9], first != second) == ("producer-", True)
    assert producer(transactional_id="t").client_id == "producer-t"
    assert consumer(group_id="g", group_instance_id="i").client_id == "consumer-g-i"
    assert producer(client_id="me").client_id == "me"


GIVEN_ALREADY: Final = "bootstrap.servers"


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_key_may_be_written_with_underscores(kind: type[Settings]) -> None:
    given: dict[str, Given] = {"bootstrap.servers": LOCAL}
    if kind is ConsumerConfig:
        given["group.id"] = "g"
    for dotted, key in kind.KEYS.items():
        if key.default is not None and dotted != GIVEN_ALREADY:
            written = kind.of({**given, dotted.replace(".", "_"): key.default})
            assert dotted in written.given


SEED_KEYS: Final[dict[str, tuple[type[Settings], str]]] = {
    "bootstrap.servers": (ProducerConfig, "localhost:9092"),
    "enable.idempotence": (ProducerConfig, "true"),
    "transactional.id": (ProducerConfig, "first-transactional"),
    "retries": (ProducerConfig, "3"),
    "acks": (ProducerConfig, "all"),
    "max.in.flight.requests.per.connection": (ProducerConfig, "5"),
    "key.serializer": (ProducerConfig, STRINGS),
    "value.serializer": (ProducerConfig, STRINGS),
    "linger.ms": (ProducerConfig, "10"),
    "buffer.memory": (ProducerConfig, "67108864"),
    "batch.size": (ProducerConfig, "32768"),
    "compression.type": (ProducerConfig, "lz4"),
    "delivery.timeout.ms": (ProducerConfig, "120000"),
    "max.block.ms": (ProducerConfig, "60000"),
    "group.id": (ConsumerConfig, "group0323"),
    "isolation.level": (ConsumerConfig, "read_committed"),
    "enable.auto.commit": (ConsumerConfig, "false"),
    "auto.commit.interval.ms": (ConsumerConfig, "5000"),
    "session.timeout.ms": (ConsumerConfig, "30000"),
    "key.deserializer": (ConsumerConfig, STRINGS.replace("Serializer", "Deserializer")),
    "value.deserializer": (ConsumerConfig, STRINGS.replace("Serializer", "Deserializer")),
}


@pytest.mark.parametrize("key", SEED_KEYS)
def test_a_key_the_seeds_name_is_taken_by_the_client_and_by_the_command_line(key: str) -> None:
    kind, value = SEED_KEYS[key]
    taken = kind.of({"bootstrap.servers": LOCAL, key: value})
    assert key in taken.given
    assert key not in without_effect(kind)
    ClientConfig.of({key: value})

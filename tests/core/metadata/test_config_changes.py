"""A change of settings must do what it says, and only where it may.

Method: the rules one by one, each beside the case that breaks it; the words are Kafka's (`tests/broker/test_config_as_kafka`
holds them against it).
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.metadata.broker_configs import broker_key
from semel.core.metadata.config_changes import VALUE_BYTES_MAX, Change, Operation, after, broker_flaw, flaw
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.errors import ErrorCode, Refuse

SET, DELETE, APPEND, SUBTRACT = Operation
REPLICAS = "leader.replication.throttled.replicas"
CPU_SECONDS_MAX = 10.0
"""What takes a tenth of a second may take here; before, it took minutes."""
PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"


def changed(own: dict[str, str], *changes: Change) -> dict[str, str] | Refuse:
    return after(own, changes, TOPIC_CONFIGS.get)


def test_setting_and_deleting_leave_the_rest_alone() -> None:
    own = {"retention.ms": "1", "segment.ms": "2"}
    assert changed(own, Change("retention.ms", "5")) == {"retention.ms": "5", "segment.ms": "2"}
    assert changed(own, Change("retention.ms", None, DELETE)) == {"segment.ms": "2"}
    assert changed(own, Change("flush.ms", "whatever", DELETE)) == own
    assert own == {"retention.ms": "1", "segment.ms": "2"}


@pytest.mark.parametrize(
    ("own", "operation", "value", "result"),
    [
        (None, APPEND, "compact", "delete,compact"),  # The default is where a list starts.
        ("compact", APPEND, "compact,delete", "compact,delete"),
        ("", APPEND, "compact", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "nothing", "compact"),
        ("a,a,b,a", SUBTRACT, "a,a", "b,a"),  # The first ones go, as many as are named.
        ("a,a", APPEND, "b,b,a", "a,a,b"),
    ],
)
def test_lists_grow_and_shrink(own: str | None, operation: Operation, value: str, result: str) -> None:
    before = {} if own is None else {"cleanup.policy": own}
    assert changed(before, Change("cleanup.policy", value, operation)) == {"cleanup.policy": result}


@given(
    items=st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
    more=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1),
)
def test_what_is_appended_is_there_once_and_can_be_subtracted(items: list[str], more: list[str]) -> None:
    name = "leader.replication.throttled.replicas"
    grown = changed({name: ",".join(items)}, Change(name, ",".join(more), APPEND))
    assert isinstance(grown, dict)
    there = [item for item in grown[name].split(",") if item]
    assert sorted(there) == sorted({*items, *more})
    shrunk = changed(grown, Change(name, ",".join(more), SUBTRACT))
    assert isinstance(shrunk, dict)
    assert [item for item in shrunk[name].split(",") if item] == [item for item in items if item not in more]


@pytest.mark.parametrize("name", ["retention.ms", "colour"])
def test_only_lists_can_be_appended_to(name: str) -> None:
    assert changed({}, Change(name, "1", APPEND)) == Refuse(
        ErrorCode.INVALID_CONFIG, f"Can't APPEND to key {name} because its type is not LIST."
    )


def test_a_change_names_a_setting_once_and_gives_it_a_value() -> None:
    good = [Change("a", "1"), Change("b", None, DELETE)]
    assert flaw(good) is None
    assert flaw([*good, Change("a", None, DELETE)]) == Refuse(
        ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    )
    assert flaw([Change("a", None), Change("b", None, APPEND)]) == Refuse(
        ErrorCode.INVALID_REQUEST, "Null value not supported for : a, b"
    )
    refused = flaw([Change("a", "1", 9)])
    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert "9" in refused.reason


@pytest.mark.parametrize(
    ("settings", "every", "code", "reason"),
    [
        (
            {"num.partitions": "3"},
            False,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            False,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [listeners]",
        ),
        (
            {"ssl.keystore.location": "x"},
            False,
            ErrorCode.INVALID_REQUEST,
            f"{PER_LISTENER}: [ssl.keystore.location]",
        ),
        (
            {"ssl.client.auth": "none"},
            True,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: [ssl.client.auth]",
        ),
        (
            {"message.max.bytes": "-3"},
            True,
            ErrorCode.INVALID_REQUEST,
            "Invalid value -3 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            {"message.max.byte": "3"},
            False,
            ErrorCode.INVALID_CONFIG,
            "Unknown broker config name: message.max.byte: did you mean message.max.bytes?",
        ),
    ],
)
def test_a_broker_changes_while_it_runs_only_what_can(
    settings: dict[str, str], every: bool, code: ErrorCode, reason: str
) -> None:
    assert broker_flaw(settings, every=every) == Refuse(code, reason)


def test_what_can_change_may_be_changed() -> None:
    assert broker_flaw({"message.max.bytes": "3", "log.cleanup.policy": "compact"}, every=True) is None
    assert broker_flaw({"ssl.client.auth": "none"}, every=False) is None
    assert broker_flaw({"listener.name.internal.ssl.keystore.location": "x"}, every=False) is None
    assert after({}, [Change("log.cleanup.policy", "compact", APPEND)], broker_key) == {
        "log.cleanup.policy": "delete,compact"
    }


def test_a_list_grows_no_longer_than_an_answer_can_say() -> None:
    """A longer one was stored, and every description of the topic closed the connection from then on."""
    longest = ",".join(f"{number}:1" for number in range(4000))[:VALUE_BYTES_MAX]
    assert changed({}, Change(REPLICAS, longest)) == {REPLICAS: longest}
    room = VALUE_BYTES_MAX - len(longest)
    grown = changed({REPLICAS: longest}, Change(REPLICAS, "x" * room, APPEND))  # And a comma.
    assert grown == Refuse(
        ErrorCode.INVALID_CONFIG,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )
    assert changed({REPLICAS: longest}, Change(REPLICAS, "0:1", SUBTRACT)) == {
        REPLICAS: longest.removeprefix("0:1,")
    }


def test_long_lists_are_changed_in_linear_time() -> None:
    items = ",".join(str(number) for number in range(200_000))
    before = time.thread_time()
    assert changed({REPLICAS: items}, Change(REPLICAS, items, SUBTRACT)) == {REPLICAS: ""}
    assert isinstance(changed({REPLICAS: items}, Change(REPLICAS, items, APPEND)), Refuse)
    assert time.thread_time() - before < CPU_SECONDS_MAX

"""A setting's text must be read as Kafka reads it, and written as Kafka writes it.

Method: examples of every type and every kind of bound, each with the value or the words Kafka has for it (taken from its
own classes; `test_config_tables` asks them again), and a round trip of every number.
"""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.metadata.config_types import (
    ConfigKey,
    ConfigType,
    Importance,
    Items,
    NonEmpty,
    OneOf,
    Range,
    RangeOr,
    Replicas,
    Validator,
    Value,
    number_text,
)
from semel.errors import ConfigError

CPU_SECONDS_MAX = 10.0
"""What takes a few milliseconds may take here; before, it took minutes."""


def setting(kind: ConfigType, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey("a.setting", kind, None, validator, Importance.LOW)


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, " +7 ", 7),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 2**15 - 1),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.10", 0.1),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.DOUBLE, "0.5f", 0.5),
        (ConfigType.DOUBLE, "Infinity", math.inf),
        (ConfigType.STRING, " r ", "r"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b ", ("a", "b")),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.PASSWORD, " s ", "s"),
        (ConfigType.CLASS, "org.example.Policy", "org.example.Policy"),
    ],
)
def test_a_text_becomes_a_value(kind: ConfigType, content: str, value: Value) -> None:
    parsed = setting(kind).parse(content)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.BOOLEAN, "", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1.5", "Not a number of type INT"),
        (ConfigType.INT, "1_0", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "9" * 5000, "Not a number of type INT"),
        (ConfigType.SHORT, "-32769", "Not a number of type SHORT"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0.0", "Not a number of type DOUBLE"),
    ],
)
def test_a_text_of_another_type_is_refused(kind: ConfigType, content: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        setting(kind).parse(content)
    assert str(refused.value) == f"Invalid value {content} for configuration a.setting: {reason}"


COLOURS = OneOf(("red", "green"))
REPLICAS = (
    "a.setting must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)


@pytest.mark.parametrize(
    ("key", "good", "bad", "words"),
    [
        (
            setting(ConfigType.INT, Range(1)),
            "1",
            "0",
            "Invalid value 0 for configuration a.setting: Value must be at least 1",
        ),
        (
            setting(ConfigType.DOUBLE, Range(0, 1)),
            "1",
            "1.5",
            "Invalid value 1.5 for configuration a.setting: Value must be no more than 1",
        ),
        (
            setting(ConfigType.INT, RangeOr(1, 9, -1)),
            "-1",
            "0",
            "Invalid value 0 for configuration a.setting: Value must be between 1 and 9 or equal to -1",
        ),
        (
            setting(ConfigType.STRING, COLOURS),
            "red",
            "RED",
            "Invalid value RED for configuration a.setting: String must be one of: red, green",
        ),
        (
            setting(ConfigType.STRING, OneOf(("red", "green"), any_case=True)),
            "RED",
            "blue",
            "Invalid value blue for configuration a.setting: String must be one of (case insensitive): red, green",
        ),
        (
            setting(ConfigType.LIST, Items(("red", "green"))),
            "",
            "red,blue",
            "Invalid value blue for configuration a.setting: String must be one of: red, green",
        ),
        (
            setting(ConfigType.LIST, Items(("red", "green"))),
            "green,red",
            "red,red",
            "Configuration 'a.setting' values must not be duplicated.",
        ),
        (
            setting(ConfigType.LIST, Items()),
            "a,b",
            "a,,b",
            "Configuration 'a.setting' values must not be empty.",
        ),
        (
            setting(ConfigType.LIST, Items(may_be_empty=False)),
            "a",
            "",
            "Configuration 'a.setting' must not be empty. Valid values include: any non-empty value",
        ),
        (
            setting(ConfigType.LIST, Items(("red", "green"), may_be_empty=False)),
            "red",
            "",
            "Configuration 'a.setting' must not be empty. Valid values include: [red, green]",
        ),
        (
            setting(ConfigType.STRING, NonEmpty()),
            "a",
            " ",
            "Invalid value  for configuration a.setting: String must be non-empty",
        ),
        (
            setting(ConfigType.LIST, Replicas()),
            "*",
            "0:1,*",
            f"Invalid value [0:1, *] for configuration a.setting: {REPLICAS}",
        ),
        (
            setting(ConfigType.LIST, Replicas()),
            "0:1,1:2",
            "0:x",
            f"Invalid value [0:x] for configuration a.setting: {REPLICAS}",
        ),
    ],
)
def test_bounds_hold_and_say_so(key: ConfigKey, good: str, bad: str, words: str) -> None:
    key.parse(good)
    with pytest.raises(ConfigError) as refused:
        key.parse(bad)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.5, "0.5"),
        (100.0, "100.0"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e21, "1.0E21"),
        (1e-5, "1.0E-5"),
        (0.00012, "1.2E-4"),
        (0.001, "0.001"),
        (-0.0, "-0.0"),
        (-1e9, "-1.0E9"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
        (5, "5"),
    ],
)
def test_numbers_are_written_as_java_does(value: float, written: str) -> None:
    assert number_text(value) == written


@given(st.floats(allow_nan=False))
def test_a_written_number_is_read_back(value: float) -> None:
    assert setting(ConfigType.DOUBLE).parse(number_text(value)) == value


def test_values_are_described_as_text_and_secrets_not_at_all() -> None:
    assert setting(ConfigType.BOOLEAN).text(True) == "true"
    assert setting(ConfigType.LIST).text(("a", "b")) == "a,b"
    assert setting(ConfigType.INT).text(None) is None
    assert setting(ConfigType.PASSWORD).text("s") is None


def test_a_list_is_split_as_kafka_splits_it_however_long_its_gaps() -> None:
    """A gap of a million blanks: an expression that tries each as a beginning takes half a trillion steps."""
    assert setting(ConfigType.LIST).parse("a \t,\r\n b , c\u00a0,,") == ("a", "b", "c\u00a0", "", "")
    gap = " " * 1_000_000
    before = time.thread_time()
    assert setting(ConfigType.LIST).parse(f"a{gap}b{gap},{gap}c") == (f"a{gap}b", "c")
    assert time.thread_time() - before < CPU_SECONDS_MAX


def test_a_refusal_cuts_a_value_that_an_answer_has_no_room_for() -> None:
    with pytest.raises(ConfigError) as refused:
        setting(ConfigType.INT).parse("x" * 40_000)
    assert len(str(refused.value)) < 7000
    assert "xxx… (40000 characters) for configuration a.setting" in str(refused.value)

"""The definition of a setting: its type, its default, its bounds, and how its text is read and written as Kafka does.

Role.   `ConfigKey` is one row of a table of settings (`topic_configs`, `broker_configs`); `parse` turns the text a user
        gave into a value or says in Kafka's words why not; `text` writes a value as Kafka describes it.
Flow.   The broker's configuration parses what it is started with; the handlers of AlterConfigs parse before they store.
Rules.  * Text is trimmed before it is read. A list is split at commas; an empty text is an empty list.
        * A refusal names the setting, the value and what is allowed, and reads as Kafka's, so that tools understand it.
        * Bounds are checked on the parsed value; a value that is not there is checked by nobody.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, Protocol, TypeAlias

from semel.errors import ConfigError

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
_GIVEN_MAX: Final = 6000
"""Characters of a user's value that a refusal shows."""


class ConfigType(IntEnum):
    """Types under the numbers DescribeConfigs gives them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from, under the numbers DescribeConfigs gives it."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_GROUP = 8


class ResourceType(IntEnum):
    """The kinds of resources with settings, under the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Importance(Enum):
    """How much Kafka thinks a setting matters."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Update(Enum):
    """How a broker's setting may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD
HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
PER_BROKER: Final = Update.PER_BROKER
CLUSTER_WIDE: Final = Update.CLUSTER_WIDE


class Validator(Protocol):
    """A bound on the values of a setting."""

    def flaw(self, name: str, value: Value) -> str | None:
        """Why the value may not be, as the whole sentence to answer; None if it may."""


def invalid(name: str, value: object, reason: str) -> str:
    """Kafka's sentence for a value that may not be; a long value is cut, for an answer has no room for any length."""
    given = str(value)
    if len(given) > _GIVEN_MAX:
        given = f"{given[:_GIVEN_MAX]}… ({len(given)} characters)"
    return f"Invalid value {given} for configuration {name}: {reason}"


@dataclass(frozen=True, slots=True)
class Range:
    """A number within bounds, both included."""

    low: float
    high: float | None = None

    def flaw(self, name: str, value: Value) -> str | None:
        if not isinstance(value, int | float):
            return None
        if value < self.low:
            return invalid(name, number_text(value), f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            return invalid(name, number_text(value), f"Value must be no more than {self.high}")
        return None


@dataclass(frozen=True, slots=True)
class RangeOr:
    """A number within bounds, or one number outside of them that has a meaning of its own."""

    low: int
    high: int
    other: int

    def flaw(self, name: str, value: Value) -> str | None:
        if not isinstance(value, int) or value == self.other or self.low <= value <= self.high:
            return None
        return invalid(
            name, value, f"Value must be between {self.low} and {self.high} or equal to {self.other}"
        )


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words."""

    words: tuple[str, ...]
    any_case: bool = False

    def flaw(self, name: str, value: Value) -> str | None:
        if not isinstance(value, str) or value in self.words:
            return None
        if self.any_case and value.upper() in (word.upper() for word in self.words):
            return None
        how = " (case insensitive)" if self.any_case else ""
        return invalid(name, value, f"String must be one of{how}: {', '.join(self.words)}")


@dataclass(frozen=True, slots=True)
class Items:
    """A list that names nothing twice; of these words, or of any if there are none."""

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def flaw(self, name: str, value: Value) -> str | None:
        if not isinstance(value, tuple):
            return None
        if not value and not self.may_be_empty:
            words = f"[{', '.join(self.words)}]" if self.words else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {words}"
        if len(set(value)) < len(value):
            return f"Configuration '{name}' values must not be duplicated."
        for item in value:
            if not item:
                return f"Configuration '{name}' values must not be empty."
            if self.words and item not in self.words:
                return invalid(name, item, f"String must be one of: {', '.join(self.words)}")
        return None


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A text with something in it."""

    def flaw(self, name: str, value: Value) -> str | None:
        return invalid(name, value, "String must be non-empty") if value == "" else None


@dataclass(frozen=True, slots=True)
class Replicas:
    """`*`, or pairs of partition and broker."""

    def flaw(self, name: str, value: Value) -> str | None:
        if not isinstance(value, tuple) or value == ("*",):
            return None
        if all(_REPLICA.fullmatch(item) for item in value):
            return None
        return invalid(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting."""

    name: str
    type: ConfigType
    default: str | None
    validator: Validator | None
    importance: Importance
    update: Update = Update.READ_ONLY
    internal: bool = False
    """Kafka keeps it from users: it can be set and is not listed."""
    synonyms: tuple[str, ...] = ()
    """The broker's settings a topic's falls back to, first one first."""
    validator_of_kafka_3: Validator | None = None
    """Kafka 3.9's bounds, where Kafka 4 has others."""
    documentation: str | None = None

    @property
    def sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, content: str, *, as_kafka_3: bool = False) -> Value:
        """The value of a text; raises `ConfigError` in Kafka's words if it is not one of this setting's.

        `as_kafka_3`: within the bounds that Kafka 3.9 has for it, whose clusters keep such values.
        """
        value = _READERS[self.type](self, content)
        validator = (as_kafka_3 and self.validator_of_kafka_3) or self.validator
        if validator is not None and (flaw := validator.flaw(self.name, value)) is not None:
            raise ConfigError(flaw)
        return value

    @property
    def default_value(self) -> Value:
        return None if self.default is None else self.parse(self.default)

    def text(self, value: Value) -> str | None:
        """A value as Kafka describes it: never a secret."""
        if value is None or self.sensitive:
            return None
        return text(value)


def text(value: bool | float | str | tuple[str, ...]) -> str:
    """A value as text that `parse` reads back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(value)
    return number_text(value)


def number_text(value: float) -> str:
    """A number as Java writes it: a double from 10,000,000 on, or below 0.001, has an exponent."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        return repr(value)
    mantissa, _, exponent = repr(value).removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = (whole + fraction).strip("0")
    if whole == "0":
        power -= len(fraction) - len(fraction.lstrip("0")) + 1
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{power}"


def _boolean(key: ConfigKey, content: str) -> Value:
    word = content.strip(_BLANK).lower()
    if word in ("true", "false"):
        return word == "true"
    raise ConfigError(invalid(key.name, content, "Expected value to be either true or false"))


def _whole(key: ConfigKey, content: str) -> Value:
    digits = content.strip(_BLANK)
    limit = _LIMITS[key.type]
    if _WHOLE.fullmatch(digits) is not None and -limit <= (number := int(digits)) < limit:
        return number
    raise ConfigError(invalid(key.name, content, f"Not a number of type {key.type.name}"))


def _double(key: ConfigKey, content: str) -> Value:
    digits = content.strip(_BLANK)
    if _DOUBLE.fullmatch(digits) is None:
        raise ConfigError(invalid(key.name, content, f"Not a number of type {key.type.name}"))
    return float(digits.rstrip("fFdD") if digits[-1] in "fFdD" else digits)


def _list(_key: ConfigKey, content: str) -> Value:
    # Not `\s*,\s*` as in Kafka: an expression tries every blank of a long gap as the beginning of a comma's.
    inside = content.strip(_BLANK)
    return tuple(item.strip(_AROUND_COMMA) for item in inside.split(",")) if inside else ()


def _string(_key: ConfigKey, content: str) -> Value:
    return content.strip(_BLANK)


_BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
_AROUND_COMMA: Final = " \t\n\v\f\r"  # As `\s` in Java.
_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_WHOLE: Final = re.compile(r"[+-]?\d{1,40}")
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)")
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7
_LIMITS: Final = {ConfigType.SHORT: 2**15, ConfigType.INT: 2**31, ConfigType.LONG: 2**63}
_READERS: Final[dict[ConfigType, Callable[[ConfigKey, str], Value]]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: _string,
    ConfigType.INT: _whole,
    ConfigType.SHORT: _whole,
    ConfigType.LONG: _whole,
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: _string,
    ConfigType.PASSWORD: _string,
}

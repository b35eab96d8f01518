"""Messages of random content for the tests of the wire codec, and Kafka's JSON spelling of them.

`random_message` fills every field a version carries: edges of the integers, empty and non-ASCII strings, nulls where
they are allowed, tagged fields present or not. The same generator and seed give the same message everywhere.
"""

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import semel.core.wire.messages as message_files
from semel.core.wire import registry
from semel.core.wire.message import Message, Request, Response
from semel.core.wire.schema import BOOL, BYTES, FLOAT64, RECORDS, STRING, UUID, Field, Kind, Struct, fields_of
from semel.errors import ErrorCode

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = ("", "a", "orders", "group-0323", "über→𝄞", "x" * 126, "y" * 127, "z" * 300)
_CODES = [int(code) for code in ErrorCode]
TIME_MAX = 4_000_000_000_000


def all_messages() -> list[type[Message]]:
    """Every request and response in `messages/`, in the order of their files."""
    modules = [
        importlib.import_module(f"{message_files.__name__}.{file.name}")
        for file in pkgutil.iter_modules(message_files.__path__)
    ]
    return [
        item
        for module in modules
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Message) and item.__module__ == module.__name__
    ]


def api_messages() -> list[type[Message]]:
    """The requests and responses of APIs: without rows and protocol parts that are no request."""
    return [cls for cls in all_messages() if issubclass(cls, Request | Response)]


def cluster_messages() -> list[type[Message]]:
    """The requests and responses of Kafka 3.9's clusters under ZooKeeper."""
    return [cls for api in registry.CLUSTER_APIS for cls in (api.request, api.response)]


def kafka_4_messages() -> list[type[Message]]:
    """Every message but those: the ones that Kafka 4 has as well."""
    older = set(cluster_messages())
    return [cls for cls in all_messages() if cls not in older]


def versions_of(cls: type[Message]) -> range:
    return range(cls.schema.versions.first, cls.schema.versions.last + 1)


def every_version(classes: Iterable[type[Message]] | None = None) -> Iterator[tuple[type[Message], int]]:
    """Every version of these messages, or of all."""
    for cls in all_messages() if classes is None else classes:
        for version in versions_of(cls):
            yield cls, version


def random_message(
    rng: random.Random,
    cls: type[Message],
    version: int,
    *,
    plain_times: bool = False,
    unknown_tags: bool = False,
) -> Message:
    """`plain_times`: error codes that exist and times of this century, for peers that read them as such."""
    made = _random_struct(rng, cls, version, plain_times, unknown_tags and version in cls.schema.flexible)
    assert isinstance(made, Message)
    return made


def _random_struct(
    rng: random.Random, cls: type[Struct], version: int, plain_times: bool, unknown_tags: bool
) -> Struct:
    def value_of(field: Field) -> Any:
        if field.struct is not None:
            return _random_struct(rng, field.struct, version, plain_times, unknown_tags)
        assert field.kind is not None
        return _random_value(rng, field.kind, field.name, plain_times)

    values: dict[str, Any] = {}
    for field in fields_of(cls):
        if version not in field.versions or (field.tag is not None and rng.random() < 0.5):
            continue
        if version in field.null and rng.random() < 0.25:
            values[field.name] = None
        elif field.is_array:
            values[field.name] = [value_of(field) for _ in range(_random_count(rng, field))]
        else:
            value = value_of(field)
            if field.tag is None or not field.is_default(
                value
            ):  # A tagged struct at its default is read as absent.
                values[field.name] = value
    if unknown_tags and rng.random() < 0.3:
        values["unknown_tags"] = tuple((tag, rng.randbytes(rng.choice((0, 3, 130)))) for tag in (40, 9000))
    return cls(**values)


def _random_count(rng: random.Random, field: Field) -> int:
    if field.struct is None and rng.random() < 0.05:
        return 130
    return rng.choice((0, 1, 1, 2))


def _random_value(rng: random.Random, kind: Kind, name: str, plain_times: bool) -> Any:
    if kind.name in _BITS:
        half = 1 << (_BITS[kind.name] - 1)
        if plain_times and name.endswith("error_code"):
            return rng.choice(_CODES)
        if plain_times and kind.name == "int64" and ("time" in name or name.endswith("_ms")):
            return rng.randrange(TIME_MAX)
        return rng.choice((0, 1, -1, half - 1, -half, rng.randrange(-half, half)))
    makers: dict[Kind, Callable[[], Any]] = {
        BOOL: lambda: rng.random() < 0.5,
        FLOAT64: lambda: rng.choice((0.0, -1.5, 1e300, rng.random())),
        UUID: lambda: rng.randbytes(16),
        STRING: lambda: rng.choice(_TEXTS),
        BYTES: lambda: rng.randbytes(rng.choice((0, 5, 127, 200))),
        RECORDS: lambda: rng.randbytes(rng.choice((0, 61, 128))),
    }
    return makers[kind]()

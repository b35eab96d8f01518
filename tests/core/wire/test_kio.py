"""Our bytes are kio's bytes, for every API and version of Kafka 4, both ways.

Method: kio reads what we wrote and writes it again (same bytes), its values are ours field by field, and we read what
it wrote. Values are seeded and random, within what kio can hold: it reads error codes as an enum and times as dates.
"""

import dataclasses
import datetime as dt
import enum
import importlib
import io
import random
from collections.abc import Callable
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from semel.core.wire import registry
from semel.core.wire.message import Message, Request, Response
from semel.core.wire.primitives import ZERO_UUID
from semel.core.wire.schema import UUID, Struct, fields_of
from support.wire.wire_values import kafka_4_messages, random_message, versions_of

MESSAGES_EACH = 4


@pytest.mark.parametrize(
    "cls",
    [cls for cls in kafka_4_messages() if issubclass(cls, Request | Response)],
    ids=lambda cls: cls.__name__,
)
def test_kio_and_we_write_the_same_bytes_and_read_the_same_values(cls: type[Message]) -> None:
    rng = random.Random(f"kio {cls.__name__}")
    for version in versions_of(cls):
        theirs = _kio_class(cls, version)
        read, write = entity_reader(theirs), entity_writer(theirs)
        for _ in range(MESSAGES_EACH):
            ours = random_message(rng, cls, version, plain_times=True)
            raw = ours.encode(version)
            entity, size = read(raw, 0)
            assert size == len(raw)
            _same(ours, entity, version)
            buffer = io.BytesIO()
            write(buffer, entity)
            assert buffer.getvalue() == raw
            assert cls.decode(buffer.getvalue(), version) == ours


def test_every_version_we_serve_is_in_kio() -> None:
    """So that the test above leaves nothing out in silence."""
    for api in registry.APIS:
        for version in range(api.first, api.last + 1):
            assert _kio_class(api.request, version).__version__ == version
            assert _kio_class(api.response, version).__version__ == version


def _kio_class(cls: type[Message], version: int) -> Any:
    api = registry.api(cls.schema.api_key)
    kind = "request" if issubclass(cls, Request) else "response"
    module = importlib.import_module(f"kio.schema.{api.key.name.lower()}.v{version}.{kind}")
    return getattr(module, cls.__name__)


def _same(ours: Struct, theirs: Any, version: int) -> None:
    known = {field.name for field in dataclasses.fields(theirs)}
    for field in fields_of(type(ours)):
        if version in field.versions:
            spellings = {
                field.name,
                field.name.removesuffix("_ms"),
                "enable2_pc" if field.name == "enable_2pc" else "",
            }
            assert spellings & known, f"{type(ours).__name__}.{field.name} is not among {known}"
            name = (spellings & known).pop()
            known.remove(name)
            mine = getattr(ours, field.name)
            if mine is None and field.tag is not None and field.struct is not None:
                mine = field.struct()  # An absent tagged struct has its defaults.
            _same_value(mine, getattr(theirs, name), version, is_uuid=field.kind is UUID)
    assert not known, f"{type(ours).__name__} v{version} lacks {known}"


def _same_value(ours: Any, theirs: Any, version: int, *, is_uuid: bool) -> None:
    if isinstance(ours, Struct):
        _same(ours, theirs, version)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for mine, its in zip(ours, theirs, strict=True):
            _same_value(mine, its, version, is_uuid=is_uuid)
    elif is_uuid:
        assert ours == (ZERO_UUID if theirs is None else theirs.bytes)
    else:
        assert ours == _as_number(theirs, ours)


def _as_number(theirs: Any, ours: Any) -> Any:
    numbers: dict[type, Callable[[Any], Any]] = {
        dt.timedelta: lambda delta: round(delta.total_seconds() * 1000),
        dt.datetime: lambda moment: round(moment.timestamp() * 1000),
        enum.Enum: lambda member: member.value,
    }
    for kind, convert in numbers.items():
        if isinstance(theirs, kind):
            return convert(theirs)
    return -1 if theirs is None and isinstance(ours, int) else theirs

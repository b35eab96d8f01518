"""Protobuf payloads as messages, and whole columns of them as Arrow.

Role.   `ProtobufCodec` reads and writes messages of one registered file; the serializers use it by record, `columns` by batch.
Rules.  * A schema is the text of a .proto file, or its descriptor in base64 as confluent-kafka's Python client registers it.
        * protoc itself, of grpcio-tools, compiles a text: once per schema, in a process of its own.
        * A record names its message by the path of indexes in front of the payload. Classes are made of the descriptors, each
          codec in a pool of its own: two versions of a file do not meet.
Elsewhere. Messages in Arrow: `protobuf_types`.
"""

import base64
import binascii
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from semel.exceptions import SerializationException
from semel.schema.extra import need
from semel.schema.rules.framing import message_indexes, read_message_indexes
from semel.schema.rules.values import PROTOBUF, Schema
from semel.words import shown

if TYPE_CHECKING:
    import pyarrow as pa

_PURPOSE: Final = "Protobuf"
_MAIN: Final = "registered/schema.proto"
_PROTOC_SECONDS: Final = 60
_WARNING: Final = re.compile(r"WARNING: |[IW]\d{4} ")


class ProtobufCodec:
    """The messages of one file. `message` names one of them; else payloads do, and the first one is written."""

    schema_type = PROTOBUF

    def __init__(self, schema: Schema, references: Mapping[str, Schema], message: str | None = None) -> None:
        need("google.protobuf.descriptor_pb2", "protobuf", _PURPOSE)
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        self._factory = message_factory
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled(schema, references))
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file)
            self._file = pool.FindFileByName(files.file[-1].name)
        except (TypeError, KeyError) as error:
            raise SerializationException(f"the Protobuf schema does not link: {error}") from error
        self._classes: dict[tuple[int, ...], Any] = {}
        self.path = (0,) if message is None else self._path_of(message)
        self.descriptor = self._class(self.path).DESCRIPTOR
        self.name: str | None = self.descriptor.full_name

    @property
    def prefix(self) -> bytes:
        """The path to the written message."""
        return message_indexes(self.path)

    def encode(self, value: Any) -> bytes:
        """The payload of a message, or of a mapping like one, with the path in front of it."""
        return self.prefix + self._written(value)

    def _written(self, value: Any) -> bytes:
        from google.protobuf import json_format
        from google.protobuf.message import EncodeError, Message

        try:
            if not isinstance(value, Message):
                if not isinstance(value, Mapping):
                    raise TypeError("give a message, or a mapping of its fields")
                value = json_format.ParseDict(dict(value), self._class(self.path)())
            elif value.DESCRIPTOR.full_name != self.name:
                raise TypeError(f"it is a {value.DESCRIPTOR.full_name}")
            return bytes(value.SerializeToString(deterministic=True))
        except (json_format.ParseError, EncodeError, TypeError, ValueError) as error:
            raise SerializationException(
                f"{shown(value)} is no Protobuf message {self.name}: {error}"
            ) from error

    def decode(self, payload: bytes) -> Any:
        """The message of a payload."""
        path, at = read_message_indexes(payload, 0)
        return self._read(self._class(path), payload[at:])

    def message_of(self, payload: bytes) -> str:
        """The full name of the message a payload holds."""
        return str(self._descriptor(read_message_indexes(payload, 0)[0]).full_name)

    def _read(self, kind: Any, payload: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return kind.FromString(payload)
        except DecodeError as error:
            raise SerializationException(
                f"{len(payload)} bytes are no Protobuf message {kind.DESCRIPTOR.full_name}: {error}"
            ) from error

    def _class(self, path: Sequence[int]) -> Any:
        found = self._classes.get(tuple(path))
        if found is None:
            found = self._classes[tuple(path)] = self._factory.GetMessageClass(self._descriptor(path))
        return found

    def _descriptor(self, path: Sequence[int]) -> Any:
        among: Sequence[Any] = list(self._file.message_types_by_name.values())
        found = None
        for index in path:
            if index >= len(among):
                raise SerializationException(
                    f"message index {list(path)} is not in the schema: {_place(found)} has {len(among)} messages"
                )
            found = among[index]
            among = found.nested_types
        return found

    def _path_of(self, message: str) -> tuple[int, ...]:
        wanted, package = message, self._file.package
        for path, descriptor in _walk(list(self._file.message_types_by_name.values()), ()):
            if descriptor.full_name in (wanted, f"{package}.{wanted}"):
                return path
        there = ", ".join(
            one.full_name for _, one in _walk(list(self._file.message_types_by_name.values()), ())
        )
        raise SerializationException(f"message {message!r} is not in the Protobuf schema, which has {there}")

    # Columns

    @property
    def arrow_type(self) -> "pa.DataType":
        """The type of a column of these messages."""
        from semel.schema.protobuf_types import arrow_type

        return arrow_type(self.descriptor)

    def decode_rows(self, payloads: Iterable[bytes]) -> list[Any]:
        """The rows behind `column_of`, as far as they can be read. All of a column are one message."""
        from semel.schema.protobuf_types import reader

        read, kind = reader(self.descriptor), self._class(self.path)
        rows = []
        for payload in payloads:
            path, at = read_message_indexes(payload, 0)
            if path != self.path:
                raise SerializationException(
                    f"the value is a {self._descriptor(path).full_name} beside a {self.name}: a column has one message; "
                    "decode them apart, or read records with ProtobufDeserializer"
                )
            rows.append(read(self._read(kind, payload[at:])))
        return rows

    def column_of(self, rows: list[Any]) -> "pa.Array":
        """A column of what `decode_rows` gave; None is null."""
        import pyarrow as pa

        return pa.array(rows, self.arrow_type)

    def encode_column(self, column: "pa.Array") -> list[bytes | None]:
        """The payloads of a column's values, each with the path; null stays null."""
        from semel.schema.protobuf_types import rows_of, writer

        write, kind = writer(self.descriptor), self._class(self.path)
        prefix = self.prefix
        found: list[bytes | None] = []
        for row in rows_of(column, self.descriptor):
            if row is None:
                found.append(None)
                continue
            message = kind()
            try:
                write(message, row)
            except (TypeError, ValueError) as error:
                raise SerializationException(
                    f"{shown(row)} is no Protobuf message {self.name}: {error}"
                ) from error
            found.append(prefix + message.SerializeToString(deterministic=True))
        return found


def compiled(schema: Schema, references: Mapping[str, Schema]) -> bytes:
    """A set of descriptors, those that others use first, the schema's own last."""
    need("google.protobuf.descriptor_pb2", "protobuf", _PURPOSE)
    from google.protobuf import descriptor_pb2

    files = {_MAIN: schema, **references}
    given = {name: _descriptor_of(one.schema_str) for name, one in files.items()}
    if all(one is not None for one in given.values()):
        found = descriptor_pb2.FileDescriptorSet()
        for name in [*references, _MAIN]:
            file = given[name]
            if name != _MAIN:
                file.name = name
            found.file.append(file)
        return _with_well_known(found)
    texts = {name: one.schema_str for name, one in files.items()}
    for name, content in given.items():
        if content is not None:
            raise SerializationException(
                f"{name} is registered as a descriptor, and others of the schema as text: register all of them as text"
            )
    return _protoc(texts)


def _with_well_known(found: Any) -> bytes:
    """The set with Google's own files it imports, which no registry has."""
    from google.protobuf import descriptor_pb2

    names = {file.name for file in found.file}
    whole = descriptor_pb2.FileDescriptorSet()
    for file in found.file:
        for name in file.dependency:
            if name not in names:
                names.add(name)
                whole.file.append(_well_known(name))
    whole.file.extend(found.file)
    return bytes(whole.SerializeToString())


def _well_known(name: str) -> Any:
    from google.protobuf import descriptor_pb2

    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if not name.startswith("google/protobuf/"):
        raise SerializationException(f"the Protobuf schema imports {name}, which is none of its references")
    found = descriptor_pb2.FileDescriptorProto()
    need(module, "protobuf", f"the import {name}").DESCRIPTOR.CopyToProto(found)
    return found


def _descriptor_of(schema_str: str) -> Any:
    """The descriptor, if the text is one in base64: no .proto file is."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        content = base64.b64decode(schema_str.encode("ascii"), validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(content)
    except (binascii.Error, UnicodeEncodeError, DecodeError):
        return None


def _protoc(texts: Mapping[str, str]) -> bytes:
    grpc_tools = need("grpc_tools", "grpcio-tools", "compiling a Protobuf schema")
    with tempfile.TemporaryDirectory(prefix="semel-protoc-") as folder:
        for name, text in texts.items():
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                raise SerializationException(
                    f"{name!r} is no name of a .proto file: it leads out of its folder"
                )
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        out = os.path.join(folder, "descriptors")
        own = os.path.join(os.path.dirname(str(grpc_tools.__file__)), "_proto")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{own}"]
        try:
            done = subprocess.run(
                [*command, "--include_imports", f"--descriptor_set_out={out}", _MAIN],
                capture_output=True,
                timeout=_PROTOC_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SerializationException(
                f"protoc did not compile the schema within {_PROTOC_SECONDS} s"
            ) from None
        if done.returncode:
            said = (
                done.stderr.decode(errors="replace").replace(folder + os.sep, "").replace(_MAIN, "the schema")
            )
            lines = [line for line in said.splitlines() if not _WARNING.match(line)]
            raise SerializationException(f"protoc refuses the Protobuf schema: {' '.join(lines)}")
        with open(out, "rb") as file_:
            return file_.read()


def _walk(messages: Sequence[Any], above: tuple[int, ...]) -> Iterable[tuple[tuple[int, ...], Any]]:
    for index, one in enumerate(messages):
        yield (*above, index), one
        yield from _walk(one.nested_types, (*above, index))


def _place(descriptor: Any) -> str:
    return "the file" if descriptor is None else str(descriptor.full_name)

"""Options of commands about schemas, and those with which `consume` and `produce` read and write records with one.

Role.   `decode_options` and `schema_options` decorate a command; `decoding` and `encoding` make its `Contents` of what was given;
        `schema_in` makes a schema of a file.
Rules.  Without a registry and without these options nothing changes, and nothing of `semel.schema` is imported.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import click

from semel.cli.contents import AS_STORED, Contents
from semel.cli.names import complete_files

if TYPE_CHECKING:
    from semel.schema.rules.values import Schema, SchemaReference

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_REGISTRY: Final = "http://localhost:8081"
_OF_COLUMNS: Final = ("csv", "parquet", "arrow")
_FILE_BYTES_MAX: Final = 16 << 20
_TYPES: Final = {"avsc": "AVRO", "json": "JSON", "proto": "PROTOBUF"}


def registry_option(command: F) -> F:
    """`-r`: where the registry is, if it was said."""
    return click.option(
        "-r",
        "--schema-registry",
        "registry",
        envvar="SEMEL_SCHEMA_REGISTRY",
        show_envvar=True,
        metavar="URL[,…]",
        help=f"The schema registry; NAME:PASSWORD@ may stand in it.  [default: {DEFAULT_REGISTRY}]",
    )(command)


def decode_options(command: F) -> F:
    """`--decode` and `-r`."""
    decode = click.option(
        "--decode",
        type=click.Choice(["auto", "avro", "protobuf", "json", "none"]),
        help="Print keys and values as JSON by the schema they name; auto: where they name one. [default: auto with a registry]",
    )
    return decode(registry_option(command))


def schema_options(command: F) -> F:
    """`--schema`, `--message` and `-r`."""
    schema = click.option(
        "--schema",
        metavar="FILE|ID|latest",
        shell_complete=complete_files,
        help="Values are JSON, written with this schema: of FILE (.avsc, .proto, .json; registered as TOPIC-value), of "
        "an id, or the newest of TOPIC-value.",
    )
    message = click.option(
        "--message", metavar="NAME", help="The message of a .proto file, if it is not the first."
    )
    return schema(message(registry_option(command)))


def decoding(decode: str | None, registry: str | None, form: str) -> Contents:
    """How a command shows keys and values; `form` is the format of its output."""
    if decode == "none" or (decode is None and registry is None):
        return AS_STORED
    if form in _OF_COLUMNS:
        if decode is not None:
            raise click.UsageError(
                f"--decode is for records that are printed: -o {form} holds bytes as they are stored."
            )
        return AS_STORED
    from semel.cli.schema_contents import Decoded

    return Decoded(registry or DEFAULT_REGISTRY, decode or "auto")


def encoding(schema: str | None, message: str | None, registry: str | None, topic: str) -> Contents:
    """How a command stores values; the registry is asked now."""
    if schema is None:
        if message is not None:
            raise click.UsageError("--message names a message of --schema, which is missing.")
        return AS_STORED
    from semel.cli.schema_contents import Encoded
    from semel.schema.writing import Writing

    url = registry or DEFAULT_REGISTRY
    if schema == "latest":
        writing = Writing(url, None, {"use.latest.version": True}, message=message)
    elif schema.isdecimal():
        writing = Writing(url, None, {"use.schema.id": int(schema)}, message=message)
    else:
        writing = Writing(url, _of_file(schema), None, message=message)
    writing.of(topic, "value")
    return Encoded(writing)


def _of_file(name: str) -> "Schema":
    try:
        with open(name, "rb") as file:
            return schema_in(file, None, ())
    except OSError as error:
        raise click.UsageError(
            f"--schema {name}: {error.strerror}; give a file (.avsc, .proto, .json), an id, or latest."
        ) from None


def schema_in(file: BinaryIO, schema_type: str | None, references: Sequence[str]) -> "Schema":
    """The schema in an open file; its name says the type, unless that is given."""
    from semel.schema.rules.values import Schema

    name = str(getattr(file, "name", "-"))
    kind = schema_type.upper() if schema_type else _TYPES.get(name.rpartition(".")[2])
    if kind is None:
        raise click.UsageError(
            f"{name} may be anything: end its name with .avsc, .proto or .json, or say --type."
        )
    content = file.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise click.UsageError(f"{name} is longer than {_FILE_BYTES_MAX} bytes: that is no schema.")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is no text in UTF-8: {error.reason} at byte {error.start}.") from None
    if not text.strip():
        raise click.UsageError(f"{name} is empty.")
    return Schema(text, kind, tuple(map(_reference, references)))


def _reference(given: str) -> "SchemaReference":
    from semel.schema.rules.values import SchemaReference

    name, equals, place = given.rpartition("=")
    subject, colon, version = place.rpartition(":")
    if not equals or not colon or not name or not subject or not version.isdecimal() or int(version) < 1:
        raise click.BadParameter(f"{given!r} is no NAME=SUBJECT:VERSION.", param_hint="--reference")
    return SchemaReference(name, subject, int(version))

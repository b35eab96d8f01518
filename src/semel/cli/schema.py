"""`semel schema`: the subjects and schemas of a registry that speaks Confluent's protocol.

Role.   `list`, `get`, `register`, `check` and `delete`.
Rules.  * `-r` says where the registry is, `-X` its other settings: basic.auth.user.info, ssl.ca.location, timeout.
        * A file's end says its type: .avsc is Avro, .proto Protobuf, .json JSON Schema; `--type` says otherwise.
        * `check` asks and changes nothing; it ends with 1 where the schema may not be registered.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from semel.cli.options import output_option, settings_option
from semel.cli.output import CSV, FOR_PEOPLE, Column, Json, show, show_document
from semel.cli.schema_options import DEFAULT_REGISTRY, registry_option, schema_in

if TYPE_CHECKING:
    from semel.schema.registry import SchemaRegistryClient
    from semel.schema.rules.values import RegisteredSchema, Schema

F = TypeVar("F", bound=Callable[..., Any])


_LISTED: Final = (
    Column("SUBJECT", "subject"),
    Column("VERSION", "version"),
    Column("ID", "id"),
    Column("TYPE", "type"),
    Column("DELETED", lambda row: "yes" if row["deleted"] else "no", wide=True),
)
_NOTHING: Final[dict[str, Json]] = {"version": None, "id": None, "type": None}


@click.group(name="schema", epilog="Example: semel schema list -r http://localhost:8081")
def command() -> None:
    """List, show, register, check and delete schemas of a registry."""


def _schema_file(called: F) -> F:
    """FILE, and what the text in it cannot say."""
    for option in (
        click.option(
            "--reference",
            "references",
            multiple=True,
            metavar="NAME=SUBJECT:VERSION",
            help="A schema the file uses, by the name it has there; may be repeated.",
        ),
        click.option(
            "--type",
            "schema_type",
            type=click.Choice(["avro", "json", "protobuf"], case_sensitive=False),
            help="What FILE is; without it its name says so.",
        ),
        click.argument("file", type=click.File("rb"), metavar="FILE|-"),
    ):
        called = option(called)
    return called


@command.command(name="list", epilog="Example: semel schema list -r http://localhost:8081 -o json")
@click.option("--deleted", is_flag=True, help="Also subjects that are deleted, but not permanently.")
@registry_option
@settings_option
@output_option
def list_(deleted: bool, registry: str | None, settings: dict[str, str], output: str) -> None:
    """Print every subject with its newest schema."""
    client = client_of(registry, settings)
    subjects = client.get_subjects(deleted)
    there = set(client.get_subjects()) if deleted else set(subjects)
    found = [client.get_latest_version(one) if one in there else None for one in subjects]
    rows = [
        {"subject": subject, "deleted": one is None, **(_NOTHING if one is None else _short(one))}
        for subject, one in zip(subjects, found, strict=True)
    ]
    show(output, rows, _LISTED)


@command.command(epilog="Example: semel schema get orders-value --version 2")
@click.argument("name", metavar="SUBJECT|ID")
@click.option("--version", metavar="N", help="A version of the subject.  [default: the newest]")
@click.option(
    "--id", "is_id", is_flag=True, help="A number is a schema's id, also if there is a subject of that name."
)
@registry_option
@settings_option
@output_option
def get(
    name: str, version: str | None, is_id: bool, registry: str | None, settings: dict[str, str], output: str
) -> None:
    """Print a schema: the newest of a subject, another version of it, or one by its id."""
    client = client_of(registry, settings)
    if is_id or (name.isdecimal() and version is None and name not in client.get_subjects()):
        if not name.isdecimal() or version is not None:
            raise click.UsageError("--id takes a number, and no --version.")
        found = client.get_schema(int(name))
    else:
        found = client.get_version(name, _version(version))
    if output not in FOR_PEOPLE:
        _show_one(output, _document(found))
        return
    click.echo(_pretty(found.schema))
    for one in found.schema.references:
        click.echo(f"uses {one.name}: {one.subject} version {one.version}", err=True)


@command.command(epilog="Example: semel schema register orders-value order.avsc")
@click.argument("subject")
@_schema_file
@click.option("--normalize", is_flag=True, help="Let the registry write the schema in its normal form.")
@registry_option
@settings_option
@output_option
def register(
    subject: str,
    file: Any,
    schema_type: str | None,
    references: Sequence[str],
    normalize: bool,
    registry: str | None,
    settings: dict[str, str],
    output: str,
) -> None:
    """Register the schema in FILE under SUBJECT, unless it is there."""
    schema = schema_in(file, schema_type, references)
    client = client_of(registry, settings)
    schema_id = client.register_schema(subject, schema, normalize)
    found = client.lookup_schema(subject, schema, normalize)
    if output not in FOR_PEOPLE:
        _show_one(output, _document(found))
    else:
        click.echo(f"{subject} version {found.version} has schema id {schema_id}")


@command.command(epilog="Example: semel schema check orders-value order.avsc && echo may be registered")
@click.argument("subject")
@_schema_file
@click.option(
    "--version", metavar="N", help="Compare with this version alone.  [default: as registering would]"
)
@registry_option
@settings_option
@output_option
def check(
    subject: str,
    file: Any,
    schema_type: str | None,
    references: Sequence[str],
    version: str | None,
    registry: str | None,
    settings: dict[str, str],
    output: str,
) -> None:
    """Say whether the schema in FILE may be registered under SUBJECT; 1 if it may not."""
    schema = schema_in(file, schema_type, references)
    client = client_of(registry, settings)
    verdict = (
        client.test_compatibility_all_versions(subject, schema)
        if version is None
        else client.test_compatibility(subject, schema, _version(version))
    )
    level = client.get_compatibility(subject)
    if output not in FOR_PEOPLE:
        found: dict[str, Json] = {"subject": subject, "compatible": verdict.is_compatible, "level": level}
        _show_one(output, {**found, "messages": verdict.messages})
    else:
        word = "compatible" if verdict else "not compatible"
        click.echo(f"{word} with {subject}, whose level is {level}")
        for message in verdict.messages:
            click.echo(f"  {message}")
    if not verdict:
        raise click.exceptions.Exit(1)


@command.command(epilog="Example: semel schema delete orders-value --version 1")
@click.argument("subject")
@click.option("--version", metavar="N", help="Delete this version alone.")
@click.option(
    "--permanent",
    is_flag=True,
    help="Delete what is deleted for good: records with its ids can no longer be read.",
)
@registry_option
@settings_option
def delete(
    subject: str, version: str | None, permanent: bool, registry: str | None, settings: dict[str, str]
) -> None:
    """Delete a subject, or one version of it.

    Records can still be read by the ids of its schemas, until the same command is called again with --permanent.
    """
    client = client_of(registry, settings)
    how = "for good" if permanent else "; its schemas can be read by their ids until --permanent"
    space = " " if permanent else ""
    if version is not None:
        client.delete_version(subject, _version(version), permanent)
        click.echo(f"deleted {subject} version {version}{space}{how}")
        return
    versions = client.delete_subject(subject, permanent)
    click.echo(f"deleted {subject}, versions {', '.join(map(str, versions))}{space}{how}")


def client_of(registry: str | None, settings: dict[str, str]) -> "SchemaRegistryClient":
    """The client for these options."""
    from semel.schema.registry import SchemaRegistryClient

    return SchemaRegistryClient({"url": registry or DEFAULT_REGISTRY, **settings})


def _version(given: str | None) -> int | str:
    if given is None or given == "latest":
        return "latest"
    if not given.isdecimal() or int(given) < 1:
        raise click.BadParameter(
            f"{given!r} is neither a number from 1 on nor 'latest'.", param_hint="--version"
        )
    return int(given)


def _short(found: "RegisteredSchema") -> dict[str, Json]:
    return {"version": found.version, "id": found.schema_id, "type": found.schema.schema_type}


def _show_one(output: str, document: dict[str, Json]) -> None:
    if output == CSV:
        show(output, [document], ())
    else:
        show_document(output, document)


def _document(found: "RegisteredSchema") -> dict[str, Json]:
    return {
        "subject": found.subject,
        **_short(found),
        "references": [one.document() for one in found.schema.references],
        "schema": found.schema.schema_str,
    }


def _pretty(schema: "Schema") -> str:
    """For a person JSON is laid out; for a program the text is as it was registered."""
    if schema.schema_type == "PROTOBUF" or not sys.stdout.isatty():
        return schema.schema_str
    try:
        return json.dumps(json.loads(schema.schema_str), indent=2, ensure_ascii=False)
    except ValueError:
        return schema.schema_str

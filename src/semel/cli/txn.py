"""`semel txn`: who has transactions, who blocks readers of committed records, and how to end what hangs."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from semel.cli import producers
from semel.cli.names import complete_topics
from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import CSV, FOR_PEOPLE, Column, print_csv, print_table, show, show_document
from semel.insight.sentences import time_text

if TYPE_CHECKING:
    from semel.client.admin.open_transactions import OpenTransaction
    from semel.client.cluster import Cluster

_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
_LISTED: Final = (
    Column("TRANSACTIONAL ID", "transactional_id"),
    Column("PRODUCER ID", "producer_id"),
    Column("STATE", "state"),
    Column("COORDINATOR", "coordinator"),
)
_DESCRIBED: Final = (
    Column("TRANSACTIONAL ID", "transactional_id"),
    Column("STATE", "state"),
    Column("PRODUCER ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("TIMEOUT MS", lambda row: "none" if row["timeout_ms"] == _NO_TIMEOUT_MS else row["timeout_ms"]),
    Column("BEGUN", lambda row: time_text(row["start_ms"])),
    Column("COORDINATOR", "coordinator"),
)
_OPEN: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM OFFSET", "start_offset"),
    Column("PRODUCER ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("LAST TIMESTAMP", lambda row: time_text(row["last_timestamp_ms"])),
    Column("TRANSACTIONAL ID", "transactional_id"),
    Column("HANGS", lambda row: "yes" if row["is_hanging"] else "no"),
)
_MINUTE_MS = 60_000
_NO_TIMEOUT_MS: Final = 2**31 - 1
"""Of a transaction another system ends (KIP-939)."""


@click.group(name="txn", epilog="Example: semel txn find-hanging --topic orders")
def command() -> None:
    """See transactions, find those that hang, and end them."""


@command.command(name="list", epilog="Example: semel txn list --state Ongoing -o json")
@click.option(
    "--state", "states", multiple=True, type=click.Choice(_STATES), help="Only these; may be repeated."
)
@click.option("--producer-id", "producer_ids", multiple=True, type=int, metavar="ID", help="Only of these.")
@click.option(
    "--older-than-ms",
    type=click.IntRange(0),
    metavar="MS",
    help="Only transactions begun longer ago than this.",
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
@connection_options
@output_option
def list_(
    states: Sequence[str],
    producer_ids: Sequence[int],
    older_than_ms: int | None,
    pattern: str | None,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Print every transactional id with its producer, state and coordinator."""
    from semel.client.calls.list_transactions import list_transactions

    with connected(bootstrap, settings) as client:
        found = client.run(
            lambda cluster: list_transactions(
                cluster,
                states=states,
                producer_ids=producer_ids,
                older_than_ms=-1 if older_than_ms is None else older_than_ms,
                pattern=pattern,
            )
        )
    show(output, [one._asdict() for one in found], _LISTED)


@command.command(epilog="Example: semel txn describe orders-1")
@click.argument("transactional_id")
@connection_options
@output_option
def describe(transactional_id: str, bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Print what the coordinator knows of a transactional id, and the partitions of its transaction."""
    from semel.client.calls.describe_transactions import describe_transaction

    with connected(bootstrap, settings) as client:
        one = client.run(describe_transaction, transactional_id)
    row = {**one._asdict(), "partitions": [list(partition) for partition in one.partitions]}
    if output == CSV:
        print_csv([row])
        return
    if output not in FOR_PEOPLE:
        show_document(output, row)
        return
    show(output, [row], _DESCRIBED)
    if one.partitions:
        click.echo()
        print_table(["TOPIC", "PARTITION"], one.partitions)


command.add_command(
    click.Command(  # The same as 'semel producers describe', where people look for it.
        "describe-producers",
        callback=producers.describe.callback,
        params=producers.describe.params,
        help=producers.describe.help,
        epilog="Example: semel txn describe-producers orders --partition 0",
    )
)


@command.command(name="find-hanging", epilog="Example: semel txn find-hanging --topic orders --all")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only these; may be repeated.",
)
@click.option(
    "--max-transaction-timeout",
    "timeout_minutes",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Those whose last record has a younger timestamp are never said to hang.",
)
@click.option("--all", "every", is_flag=True, help="Every open transaction, hanging or not.")
@connection_options
@output_option
def find_hanging(
    topics: Sequence[str],
    timeout_minutes: int,
    every: bool,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Print transactions that are open on a partition and that no coordinator will end.

    Readers of committed records wait before the offset where the oldest one begins. The last timestamp is that of the producer's
    last record, which may be much older than its writing.
    """

    async def ask(cluster: "Cluster") -> "list[OpenTransaction]":
        from semel.client.admin.open_transactions import open_transactions

        found = await open_transactions(
            cluster,
            list(topics) or None,
            now_ms=int(time.time() * 1000),
            older_than_ms=timeout_minutes * _MINUTE_MS,
        )
        return [one for one in found if every or one.is_hanging]

    with connected(bootstrap, settings) as client:
        found = client.run(ask)
    show(output, [one._asdict() for one in found], _OPEN)


@command.command(epilog="Example: semel txn abort --topic orders --partition 0 --start-offset 42")
@click.option("--transactional-id", metavar="ID", help="Abort what its producer has open, and fence it.")
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="End a hanging transaction on this topic.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N")
@click.option(
    "--start-offset", type=click.IntRange(0), metavar="OFFSET", help="Where it begins: see find-hanging."
)
@connection_options
def abort(
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """End a transaction: a coordinator's by fencing its producer, a hanging one by a marker on its partition."""
    from semel.client.admin.open_transactions import abort_on_partition
    from semel.client.calls.init_producer_id import fence

    hanging = (topic, partition, start_offset)
    if (transactional_id is None) == (hanging == (None, None, None)):
        raise click.UsageError("Name either --transactional-id, or --topic, --partition and --start-offset.")
    with connected(bootstrap, settings) as client:
        if transactional_id is not None:
            epoch = client.run(fence, transactional_id).producer_epoch
            click.echo(f"fenced {transactional_id}: nothing of it is open, its epoch is {epoch} now")
            return
        if topic is None or partition is None or start_offset is None:
            raise click.UsageError("A hanging transaction needs --topic, --partition and --start-offset.")
        client.run(abort_on_partition, topic, partition, start_offset)
        click.echo(f"aborted the transaction from offset {start_offset} of {topic}-{partition}")

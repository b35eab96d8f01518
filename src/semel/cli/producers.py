"""`semel producers`: what makes a retry harmless, seen from outside."""

from typing import TYPE_CHECKING

import click

from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import print_json, print_table
from semel.insight.sentences import time_text

if TYPE_CHECKING:
    from semel.client.calls.describe_producers import ProducerView
    from semel.client.cluster import Cluster


@click.group(name="producers", epilog="Example: semel producers describe orders")
def command() -> None:
    """The producers that partitions remember."""


@command.command(epilog="Example: semel producers describe orders --partition 0 -o json")
@click.argument("topic")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="This partition only.")
@connection_options
@output_option
def describe(
    topic: str, partition: int | None, bootstrap: str, settings: dict[str, str], output: str
) -> None:
    """Print each producer's id, epoch, last sequence and last timestamp, and where its open transaction begins.

    The timestamp is that of the producer's last record: a producer that sets times of its own can be busy with an old one.
    The protocol does not tell the offset of a producer's last record: 'semel log dump' of a snapshot does.
    """

    async def ask(cluster: "Cluster") -> "list[ProducerView]":
        from semel.client.calls.describe_producers import describe_producers

        view = await cluster.topic(topic)
        if partition is not None and partition >= len(view.partitions):
            raise click.BadParameter(
                f"{topic} has the partitions 0 to {len(view.partitions) - 1}.", param_hint="--partition"
            )
        return await describe_producers(cluster, view, None if partition is None else [partition])

    with connected(bootstrap, settings) as client:
        found = client.run(ask)
    if output == "json":
        print_json([one._asdict() for one in found])
        return
    header = ["PARTITION", "PRODUCER ID", "EPOCH", "LAST SEQUENCE", "LAST TIMESTAMP", "OPEN TRANSACTION FROM"]
    rows = [
        [
            one.partition,
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            time_text(one.last_timestamp_ms),
            one.transaction_start_offset,
        ]
        for one in found
    ]
    print_table(header, rows)

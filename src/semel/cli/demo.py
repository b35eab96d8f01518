"""`semel demo`: the whole story of a shop on Spark, or a million records through the broker alone."""

from pathlib import Path

import click

from semel.cli.output_file import OutputFile
from semel.cli.spark_needed import need_spark


@click.command(name="demo", epilog="Example: semel demo --story records --records 200000")
@click.option(
    "--story",
    type=click.Choice(["shop", "records"]),
    default="shop",
    show_default=True,
    help="shop: a pipeline on Spark, all of it killed on the way. records: producer and broker alone, without Spark.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Decides what is sent and harmed.",
)
@click.option(
    "--orders",
    type=click.IntRange(1000, 10_000_000),
    default=60_000,
    show_default=True,
    help="Of the shop; each of them is two or three events.",
)
@click.option(
    "--picture",
    type=OutputFile(),
    default=Path("semel-demo.html"),
    show_default=True,
    help="Where the shop's picture goes: .html, .svg, or .json for its data.",
)
@click.option(
    "--records",
    type=click.IntRange(1000, 100_000_000),
    default=1_000_000,
    show_default=True,
    help="Of the story of that name.",
)
def command(story: str, seed: int, orders: int, picture: Path, records: int) -> None:
    """Show that everything counts exactly once, whatever is done to it.

    shop: a till sends orders in transactions through a connection that is cut again and again. A PySpark pipeline cleans,
    enriches and sums them up and writes tables back. Broker, driver and till are killed on the way. Then every topic is
    compared with the records that the seed implies. The exit code is 0 only if nothing is lost, duplicated or torn.
    """
    if story == "records":
        from semel.cli.demo_records import show_records

        show_records(records, seed)
    else:
        need_spark("this story", instead="semel demo --story records")
        from semel.cli.demo_shop import show_shop

        show_shop(orders, seed, picture)

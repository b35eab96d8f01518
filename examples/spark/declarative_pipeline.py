"""A declarative pipeline: `pyspark.pipelines` reads and writes topics through format("semel").

    python examples/spark/declarative_pipeline.py

The pipeline is `declarative/definitions.py`: what there is, not how it runs. `spark-pipelines run` runs it twice here; the second
time only what is new goes to the topic.
"""

import os
import string
import subprocess
import sys
import tempfile
from pathlib import Path

from semel import Admin, Broker, Consumer, Producer
from semel.spark.java import use_java

PIPELINE = Path(__file__).parent / "declarative"


def send(servers: str, *orders: tuple[str, str, int]) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for order, product, cents in orders:
            producer.send(
                "orders", f'{{"id": "{order}", "product": "{product}", "cents": {cents}}}', key=order
            )


def run(servers: str, directory: Path) -> None:
    """`spark-pipelines run`, with this interpreter."""
    places = {"STORAGE": (directory / "storage").as_uri()}
    for file in PIPELINE.iterdir():
        if file.is_file():
            text = file.read_text()
            is_spec = file.suffix == ".yml"
            (directory / file.name).write_text(string.Template(text).substitute(places) if is_spec else text)
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-pipelines"),
            "run",
            "--spec",
            str(directory / "spark-pipeline.yml"),
        ],
        env={**os.environ, "SEMEL_BOOTSTRAP": servers, "PYSPARK_PYTHON": sys.executable},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")


def dear(servers: str) -> list[str]:
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([("dear", 0)])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([("dear", 0)]).values()
        seen: list[str] = []
        while consumer.position(("dear", 0)) < end:
            seen += [bytes(record.value).decode() for record in consumer.poll(300)]
    return seen


def main(servers: str, directory: Path) -> None:
    use_java()
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(["orders", "dear"])
    send(servers, ("a", "tea", 300), ("b", "jam", 600))
    run(servers, directory)
    print("dear:", *dear(servers))
    send(servers, ("c", "tea", 700))
    run(servers, directory)
    print("dear:", *dear(servers))


if __name__ == "__main__":
    with Broker(group_initial_rebalance_delay_ms=0) as broker, tempfile.TemporaryDirectory() as name:
        main(broker.bootstrap, Path(name))

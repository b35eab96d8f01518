"""What the README shows of Spark runs as it stands, but for where its checkpoint is, and counts."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semel import Admin, Producer
from support.spark.spark_kit import read_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_readme_s_query_counts(spark: "SparkSession", spark_bootstrap: str, tmp_path: Path) -> None:
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "semel.spark" in one]
    assert "checkpoints/counts" in block
    block = block.replace("checkpoints/counts", str(tmp_path / "counts"))
    with Admin({"bootstrap.servers": spark_bootstrap}) as admin:
        admin.create_topics(["orders", "counts"])
    with Producer({"bootstrap.servers": spark_bootstrap}) as producer:
        for key in (b"tea", b"salt", b"tea"):
            producer.send("orders", b"an order", key=key)
    names: dict[str, Any] = {"server": spark_bootstrap}
    exec(compile(block, "README.md", "exec"), names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    rows = read_all(spark_bootstrap, "counts").to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {b"tea": b"2", b"salt": b"1"}

"""Over Spark Connect the source and the drop-in sink work, and the atomic sink says at once that it cannot.

Method: a program with a Connect session, whose server Spark starts by itself, in a process of its own.
"""

import json
from pathlib import Path

import pytest

from semel import Producer
from support.spark.spark_kit import driver_process, new_topic, values

PROGRAM = Path(__file__).with_name("connect_program.py")


@pytest.mark.campaign  # A session of its own.
def test_a_program_over_spark_connect(java_installed: None, spark_bootstrap: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    source, target = new_topic(spark_bootstrap, "in"), new_topic(spark_bootstrap, "out")
    with Producer(bootstrap_servers=spark_bootstrap) as producer:
        for index in range(10):
            producer.send(source, value=str(index))
    arguments = [spark_bootstrap, source, target, str(tmp_path / "checkpoint")]
    environment = {"SPARK_REMOTE": "local[2]"}
    with driver_process(PROGRAM, arguments, directory=tmp_path, environment=environment) as program:
        assert program.wait() == 0, program.text()[-5000:]
        told = json.loads(next(line for line in program.text().splitlines() if line.startswith("{")))
    assert "connect" in told["session"]
    assert told["rows"] == 10
    assert values(spark_bootstrap, target) == [str(index) for index in range(10)]
    assert told["said"].startswith("SinkStaysError: "), told
    assert "df.writeStream.format('semel')" in told["said"]

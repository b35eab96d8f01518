"""`semel consume` as people use it in a shell: followed until Ctrl-C, or cut short by `head`.

Method: real processes. What is waited for is a line of output.
"""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from semel import Broker
from semel.cli.main import cli
from support.broker.broker_process import PATIENCE_SECONDS, command


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def produce(bootstrap: str, topic: str, lines: str) -> None:
    result = CliRunner().invoke(cli, ["produce", topic, "-b", bootstrap], input=lines)
    assert result.exit_code == 0, result.exception


def consuming(bootstrap: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("consume", "-b", bootstrap, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )


def test_following_shows_each_record_at_once_and_ctrl_c_ends_it_well(bootstrap: str) -> None:
    produce(bootstrap, "followed", "one\n")
    with consuming(bootstrap, "followed", "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        produce(bootstrap, "followed", "two\n")
        assert process.stdout.readline() == "two\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_reader_that_has_enough_is_no_error_to_shout_about(bootstrap: str) -> None:
    produce(bootstrap, "long", "".join(f"a line of some length, number {n}\n" for n in range(20_000)))
    with consuming(bootstrap, "long") as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("number 0\n")
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(PATIENCE_SECONDS) == 0

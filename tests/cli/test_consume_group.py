"""`semel consume --group`: a member of a classic group, at Semel and at Apache Kafka.

Method: what one run prints the next does not; two runs share; a run shares with librdkafka, whose leader may be either;
what was not printed comes again.
"""

import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from semel.cli.main import cli
from support.groups.group_members import member

SEMEL = Path(sys.executable).parent / "semel"
WAIT_SECONDS = 60


def semel(bootstrap: str, *arguments: str, stdin: str | None = None) -> list[str]:
    result = CliRunner().invoke(
        cli, arguments, input=stdin, env={"SEMEL_BOOTSTRAP": bootstrap}, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.fixture
def bootstrap(group_bootstrap: str) -> str:
    return group_bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    semel(bootstrap, "topics", "create", name, "--partitions", "4")
    return name


def fill(bootstrap: str, topic: str, word: str, count: int = 5) -> set[str]:
    """The same number of records into every partition."""
    lines = set()
    for partition in range(4):
        some = [f"{word}-{partition}-{number}" for number in range(count)]
        semel(bootstrap, "produce", topic, "--partition", str(partition), stdin="\n".join(some) + "\n")
        lines |= set(some)
    return lines


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_what_was_printed_is_not_printed_again(bootstrap: str, topic: str, strategy: str) -> None:
    first = fill(bootstrap, topic, "first")
    asked = ["consume", topic, "--group", f"g-{topic}", "-X", f"partition.assignment.strategy={strategy}"]
    some = semel(bootstrap, *asked, "-n", "7")
    assert len(some) == 7
    rest = semel(bootstrap, *asked)
    assert sorted(some + rest) == sorted(first)
    assert semel(bootstrap, *asked) == []
    second = fill(bootstrap, topic, "second")
    assert sorted(semel(bootstrap, *asked)) == sorted(second)
    assert f"g-{topic}" in "".join(semel(bootstrap, "groups", "list", "--state", "Empty"))


def test_a_new_group_may_begin_at_the_end(bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic, "old")
    assert semel(bootstrap, "consume", topic, "--group", f"g-{topic}", "--offset", "latest") == []
    # Nothing was read, so nothing is committed: the beginning is still open to the group.
    assert len(semel(bootstrap, "consume", topic, "--group", f"g-{topic}")) == 20


def test_a_run_shares_with_another_client(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """It joins a group that another client leads, and takes over when that one leaves."""
    group = f"g-{topic}"
    printed = tmp_path / "printed"
    with member(bootstrap, group, topic) as other, printed.open("wb") as out:
        run = subprocess.Popen(
            [SEMEL, "consume", topic, "--group", group, "--follow", "-b", bootstrap],
            stdout=out,
            stderr=subprocess.PIPE,
        )
        try:
            deadline = time.monotonic() + WAIT_SECONDS
            while len(other.assignment()) != 2:
                other.poll(0.05)
                assert time.monotonic() < deadline
            lines = fill(bootstrap, topic, "shared")
            read = [one.value().decode() for one in other.consume(10, timeout=30)]
            wanted = lines - set(read)
            _wait_for(printed, wanted)
            assert len(read) == len(wanted) == 10
            other.commit(asynchronous=False)
            other.unsubscribe()
            while other.assignment():  # It lets go, and leaves, while it is polled.
                other.poll(0.05)
            more = fill(bootstrap, topic, "alone")
            _wait_for(printed, wanted | more)
            run.send_signal(signal.SIGINT)
            assert run.wait(WAIT_SECONDS) == 0
            described = "\n".join(semel(bootstrap, "groups", "describe", group))
            assert "state Empty" in described  # It left at once, and had committed what it printed.
            assert "lag 0" in described
        finally:
            run.kill()
            run.communicate(timeout=WAIT_SECONDS)


def _wait_for(file: Path, lines: set[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not lines <= set(file.read_text(encoding="utf-8").splitlines()):
        assert time.monotonic() < deadline, lines - set(file.read_text(encoding="utf-8").splitlines())
        time.sleep(0.05)
    assert sorted(file.read_text(encoding="utf-8").splitlines()) == sorted(lines)


@pytest.mark.parametrize("more", [["--partition", "0"], ["--offset", "5"]])
def test_the_group_decides_what_is_read(more: list[str]) -> None:
    result = CliRunner().invoke(cli, ["consume", "t", "--group", "g", *more])
    assert result.exit_code == 2
    assert "With --group the group decides what is read" in result.output

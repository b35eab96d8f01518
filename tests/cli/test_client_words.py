"""Clients that are disturbed on purpose do not fill the screen: their warnings are counted, and kept where that is asked for.

Method: the loggers by hand; then the command as a person runs it, with its broker killed again and again.
"""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from semel.cli.client_words import kept

CLIENT = logging.getLogger("semel.client.troubles")
OTHER = logging.getLogger("other")


@pytest.mark.parametrize("in_file", [True, False])
def test_warnings_are_counted_and_everybody_elses_are_not(
    in_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "words" if in_file else None
    logger = logging.getLogger("semel")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with kept(file) as words:
        assert words.told(file) is None
        CLIENT.warning("a:1 cannot be reached")
        assert (
            words.told(None) == "Clients warned once of what was done to them: --log FILE keeps their words"
        )
        CLIENT.error("it is gone")
        CLIENT.info("it is back")
        OTHER.warning("somebody else's")
        assert words.warnings == 2
    CLIENT.warning("after it")
    assert caplog.messages == ["somebody else's", "after it"]
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    if file is not None:
        assert words.told(file) == f"Clients warned 2 times of what was done to them: {file} has their words"
        lines = file.read_text().splitlines()
        assert [line.partition(": ")[2] for line in lines] == [
            "a:1 cannot be reached",
            "it is gone",
            "it is back",
        ]
        assert "WARNING semel.client.troubles" in lines[0]


def test_kills_are_not_told_by_every_client(tmp_path: Path) -> None:
    """What the proof finds is not the question here, and on a busy machine a broker may not be back before its clients give up."""
    words = tmp_path / "words"
    options = ["--fault", "kill", "--fault-every", "1", "--log", str(words)]
    for seconds in ("5", "20", "80"):  # Until a kill was felt.
        done = subprocess.run(
            [sys.executable, "-m", "semel", "verify", "idempotence", *options, "--seconds", seconds],
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
        assert "can be reached" not in done.stderr
        if "can be reached" in words.read_text(encoding="utf-8"):
            assert f"{words} has their words" in done.stderr
            return
    pytest.fail("no client warned of a kill")

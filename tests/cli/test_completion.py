"""Topics and groups as the shell completes them: from a broker, and in time and silence without one.

Method: the program run as bash runs it, with a broker, with one that never answers, and with a configuration that is broken.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from semel import Broker, Producer

ENTRY = "from semel.cli.main import main; main()"


def completed(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What bash gets for these words; the last one is being typed."""
    # A busy machine takes its time; what is tried with the budget says so.
    asked = {
        "SEMEL_COMPLETION_SECONDS": "60",
        "_SEMEL_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    return subprocess.run(
        [sys.executable, "-c", ENTRY],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | asked | environment,
    )


def found(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.fixture
def bootstrap(semel_broker: Broker) -> str:
    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        for topic in ("complete-orders", "complete-shipments"):
            producer.send(topic, b"x").result()
    return semel_broker.bootstrap


def test_topics_groups_and_profiles_are_completed(bootstrap: str, tmp_path: Path) -> None:
    here = {"SEMEL_BOOTSTRAP": bootstrap, "XDG_CONFIG_HOME": str(tmp_path)}
    for words in (
        "semel consume complete-o",
        "semel topics describe complete-o",
        "semel configs set a=b --topic complete-o",
    ):
        assert found(completed(words, **here)) == ["complete-orders"], words
    subprocess.run(
        [sys.executable, "-c", ENTRY, "consume", "complete-orders", "--group", "complete-group"],
        check=True, capture_output=True, timeout=60, env=os.environ | here,
    )  # fmt: skip
    assert found(completed("semel groups describe complete-g", **here)) == ["complete-group"]
    (tmp_path / "semel").mkdir()
    (tmp_path / "semel" / "config.toml").write_text(
        f'[profiles.shop]\nbootstrap = "{bootstrap}"\n', encoding="utf-8"
    )
    assert found(completed("semel profile use s", **here)) == ["shop"]
    assert found(completed("semel consume --profile shop complete-s", SEMEL_BOOTSTRAP="127.0.0.1:1", XDG_CONFIG_HOME=str(tmp_path))) == ["complete-shipments"]  # fmt: skip


def test_a_cluster_that_does_not_answer_gives_no_names_and_no_words() -> None:
    assert found(completed("semel consume x", SEMEL_BOOTSTRAP="127.0.0.1:1")) == []
    assert found(completed("semel consume x", SEMEL_BOOTSTRAP="no address")) == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done = completed("semel consume x", SEMEL_BOOTSTRAP=address, SEMEL_COMPLETION_SECONDS="no number")
        assert found(done) == []
        assert (
            time.monotonic() - began < 30
        )  # A budget of a second and a start; a busy machine may take its time.


def test_a_broken_configuration_is_no_matter_at_the_prompt(tmp_path: Path) -> None:
    (tmp_path / "semel").mkdir()
    (tmp_path / "semel" / "config.toml").write_text("broken", encoding="utf-8")
    for words in ("semel consume x", "semel profile use x"):
        assert found(completed(words, XDG_CONFIG_HOME=str(tmp_path))) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_its_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run(
        [sys.executable, "-c", ENTRY, "completion", shell],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)

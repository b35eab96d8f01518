"""Topics and groups as the shell completes them: from a broker, and in time and silence without one.

Method: the program run as bash runs it, with a broker, with one that never answers, and with a configuration that is broken. Then bash,
zsh and fish themselves, as at a prompt: a line is typed, and the tabulator.
"""

import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
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


@pytest.fixture
def prompt(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `semel` on the PATH, the scripts of the shells, and something to find."""
    programs = tmp_path / "programs"
    programs.mkdir()
    semel = programs / "semel"
    semel.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{ENTRY}' \"$@\"\n", encoding="utf-8")
    semel.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SEMEL_BOOTSTRAP", bootstrap)
    monkeypatch.setenv("SEMEL_COMPLETION_SECONDS", "60")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    for shell in SHELLS:
        made = subprocess.run([semel, "completion", shell], capture_output=True, check=True, timeout=60)
        (tmp_path / f"semel.{shell}").write_bytes(made.stdout)
    (tmp_path / "logs-of-mine").mkdir()
    (tmp_path / "logs-of-mine" / "0.log").touch()
    return tmp_path


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        reason = f"{shell} is not installed: make peers installs it where apt-get and root are at hand"
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            pytest.fail(reason)
        pytest.skip(reason)


SHELLS = ("bash", "zsh", "fish")
PROMPTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='$ '; source {script}"),
    "zsh": (["zsh", "-f", "-i"], "PS1='$ '; autoload -U compinit; compinit -D; source {script}"),
}


class Terminal:
    """A shell at a terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._screen = b""
        self._terminal, inside = pty.openpty()
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=inside, stdout=inside, stderr=inside, start_new_session=True
        )
        os.close(inside)

    def type(self, text: str) -> None:
        self._screen = b""
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows it."""
        until = time.monotonic() + 60
        while text.encode() not in self._screen:
            assert time.monotonic() < until, self._screen
            if select.select([self._terminal], [], [], 1)[0]:
                self._screen += os.read(self._terminal, 65536)

    def close(self) -> None:
        os.close(self._terminal)
        self._process.kill()
        self._process.wait()


@pytest.fixture
def terminal(shell: str, prompt: Path) -> Iterator[Terminal]:
    need(shell)
    command, setting_up = PROMPTS[shell]
    opened = Terminal(command, prompt)
    try:
        opened.type(setting_up.format(script=prompt / f"semel.{shell}") + "; echo it is''set up\n")
        opened.wait_for("it isset up")
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize("shell", list(PROMPTS))
def test_the_tabulator_completes_what_is_typed(terminal: Terminal) -> None:
    for typed, completed_to in (
        ("semel consume complete-o", "complete-orders "),
        ("semel top", "semel topics "),
        ("semel consume x --max-m", "--max-messages "),
        ("semel log dump --files logs-of-mine/", "logs-of-mine/0.log"),
        ("semel broker --data-dir logs-of", "logs-of-mine/"),
    ):
        terminal.type(f"{typed}\t")
        terminal.wait_for(completed_to)
        terminal.type("\x15")  # The line is deleted.


def test_fish_completes_with_whole_descriptions(prompt: Path) -> None:
    need("fish")

    def offered(line: str) -> list[str]:
        asked = f"source {prompt / 'semel.fish'}; complete -C '{line}'"
        done = subprocess.run(
            ["fish", "-c", asked], capture_output=True, text=True, check=True, cwd=prompt, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert offered("semel consume complete-") == ["complete-orders", "complete-shipments"]
    (topics,) = offered("semel top")
    name, _, description = topics.partition("\t")
    assert name == "topics"
    assert "," in description, "it ends where the sentence ends"
    assert offered("semel log dump --files logs-of-mine/") == ["logs-of-mine/0.log"]

"""The `semel` command itself: help, version, completion, exit codes, and a start that loads nothing heavy.

Method: in this process where only text matters; in a process of its own where imports and exit codes are the point.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from semel import Broker, Producer
from semel._version import __version__
from semel.cli.main import COMMANDS, UNREAD, cli
from semel.cli.options import in_flags

ENTRY = "from semel.cli.main import main; main()"


def semel(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ENTRY, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment, timeout=60
    )


def test_help_lists_every_command_with_an_example() -> None:
    for flag in ("-h", "--help"):
        result = CliRunner().invoke(cli, [flag])
        assert result.exit_code == 0
        assert "Example: semel " in result.output
        for name, (_module, line) in COMMANDS.items():
            assert re.search(rf"^  {name} +{re.escape(line)}$", result.output, re.MULTILINE)


def test_every_command_has_help_with_an_example() -> None:
    for name in COMMANDS:
        result = CliRunner().invoke(cli, [name, "--help"])
        assert result.exit_code == 0
        assert f"Example: semel {name} " in result.output


def test_every_subcommand_has_help_with_an_example() -> None:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        for sub in command.commands if isinstance(command, click.Group) else ():
            result = CliRunner().invoke(cli, [name, sub, "--help"])
            assert result.exit_code == 0
            assert f"Example: semel {name} {sub} " in result.output


def test_help_tells_how_to_complete_in_one_line() -> None:
    lines = CliRunner().invoke(cli, ["--help"]).output.splitlines()
    assert '  Completion: eval "$(semel completion bash)"; also zsh and fish' in lines


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--help", UNREAD),
        ("offsets reset --help", UNREAD),
        ("alerts", UNREAD),
        ("topics list -b BROKER", UNREAD),
        ("topics list -b BROKER -o json", UNREAD),
        ("doctor -b BROKER", UNREAD),
        ("topics describe missing -b BROKER", 1),
        ("consume read-by-nobody -b BROKER", 0),
        ("consume read-by-nobody -b BROKER -o json --group g", 0),
    ],
)
@pytest.mark.parametrize("errors_too", [False, True], ids=["stdout", "both"])
def test_a_reader_that_is_gone_ends_a_command_without_a_word(
    semel_broker: Broker, arguments: str, code: int, errors_too: bool
) -> None:
    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        producer.send("read-by-nobody", "a record").result()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", ENTRY, *arguments.replace("BROKER", semel_broker.bootstrap).split()],
            stdout=writing,
            stderr=writing if errors_too else subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert done.stderr in (None, "") or code == 1, done.stderr
    assert done.returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no disk that is always full")
@pytest.mark.parametrize(
    "arguments", ["alerts", "consume no-room -b BROKER --group g", "topics list -b BROKER"]
)
def test_an_output_without_room_is_one_line(semel_broker: Broker, arguments: str) -> None:
    """A traceback told of the printer's insides, and only at the end of a short output: it is written when it is flushed."""
    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        producer.send("no-room", "a record").result()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", ENTRY, *arguments.replace("BROKER", semel_broker.bootstrap).split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.stderr == (
        "semel: the output cannot be written whole: No space left on device; make room, and run it again\n"
    )
    assert done.returncode == 1


def test_errors_of_the_library_name_options_here() -> None:
    """A program is told the setting; who types a command, its option."""
    done = semel("topics", "list", "-b", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.endswith(": start one with 'semel broker', or name another with --bootstrap\n")
    assert in_flags("bootstrap.servers='': name one; kafka.bootstrap.servers, bootstrap.servers.x stay") == (
        "--bootstrap='': name one; kafka.bootstrap.servers, bootstrap.servers.x stay"
    )


def test_version() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.exit_code == 0
    commit = r"[0-9a-f]{10}( with uncommitted changes)?|unknown"
    assert re.fullmatch(rf"semel {re.escape(__version__)} \(commit ({commit})\)\n", result.output)


def test_a_version_without_git_is_a_version() -> None:
    done = semel("--version", PATH="")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"semel {__version__} (commit unknown)\n"


@pytest.mark.parametrize("arguments", ["", "--help", "--version", "advise --help", "topics create --help"])
def test_help_loads_nothing_heavy(arguments: str) -> None:
    """Each of these costs tenths of a second or tens of megabytes; a person at a prompt waits for none of them."""
    script = (
        "import sys\n"
        "from semel.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "heavy = {'numba', 'numpy', 'pyarrow', 'asyncio', 'hypothesis', 'cramjam'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))\n"
    )
    command = [sys.executable, "-c", script, *arguments.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "HEAVY []"


def test_an_error_of_ours_is_one_line_and_exit_code_1() -> None:
    result = semel("broker", "--config", "nowhere.properties")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        "semel: the config file nowhere.properties cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fly"], "No such command 'fly'"),
        (["verifi"], "No such command 'verifi'. Did you mean 'verify'?"),
        (["topics", "lst"], "No such command 'lst'. Did you mean 'list'?"),
        (["topics", "list", "--outptu", "json"], "No such option '--outptu'. Did you mean '--output'?"),
        (["--fly"], "No such option"),
        (["topics", "list", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'yaml', 'csv'"),
        (["bench", "client", "idea"], "there is no suite 'idea'; there are broker, client, "),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_wrong(arguments: list[str], message: str) -> None:
    result = semel(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_gets_its_completion_script(shell: str) -> None:
    result = semel("completion", shell, PATH="")  # No shell is started for it.
    assert result.returncode == 0, result.stderr
    assert f"_SEMEL_COMPLETE={shell}_complete" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("semel ad", ["advise"]),
        ("semel --ver", ["--version"]),
        ("semel bench s", ["scale", "spark"]),
    ],
)
def test_words_are_completed(words: str, expected: list[str]) -> None:
    result = semel(_SEMEL_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert [line.partition(",")[2] for line in result.stdout.split()] == expected


def test_completing_a_command_imports_none() -> None:
    script = f"import sys, atexit\natexit.register(lambda: print('semel.cli.groups' in sys.modules))\n{ENTRY}"
    environment = os.environ | {
        "_SEMEL_COMPLETE": "bash_complete",
        "COMP_WORDS": "semel gr",
        "COMP_CWORD": "1",
    }
    result = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=60,
    )
    assert result.stdout.split() == ["plain,groups", "False"]

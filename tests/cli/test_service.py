"""`semel service`: units that systemd accepts, and a broker that a real systemd starts, starts again and stops.

Method: `systemd-analyze verify` reads every unit. The life of a service is played below a systemd of a user, in a mount namespace
of its own. Both are skipped, with the reason, where there is no systemd.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from semel.cli import service
from semel.cli.main import cli
from semel.cli.unit_file import Unit, quoted, unit_text
from support.cli.user_manager import obstacle

LIFE = """
set -eux
semel() { PY -P -m semel "$@"; }
show() { systemctl --user show semel.service --value -p "$1"; }
eventually() { for _ in $(seq 600); do if "$@"; then return; fi; sleep 0.1; done; "$@"; }
mkdir -p "$XDG_CONFIG_HOME/systemd/user/semel.service.d"
printf '[Service]\\nRestartSec=100ms\\nWatchdogSec=5\\nStandardError=file:%%h/log\\n' > "$XDG_CONFIG_HOME/systemd/user/semel.service.d/test.conf"
semel service install --user --listen 127.0.0.1:0 --data-dir "$HOME/a b%c\\$d" -X num.partitions=3 --log-format json
# A process id, once there is one: no signal may go to 0, which is everybody here.
running() { main=$(show MainPID); test "$main" -gt 1 && test "$main" != "$1" && test "$(show ActiveState)" = active; }
eventually running 0
first=$main
kill -KILL "$first"
eventually running "$first"
second=$main
kill -STOP "$second"   # A loop that does not turn: the watchdog ends it.
eventually running "$second"
eventually running 0
serves() { semel service status --user | grep 'serves on 127.0.0.1:'; }
eventually serves
semel service uninstall --user
test "$(show ActiveState)" = inactive
test ! -e "$XDG_CONFIG_HOME/systemd/user/semel.service"
test -e "$HOME/a b%c\\$d/.kafka_cleanshutdown"
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["service", *arguments])


def unit(**changed: object) -> Unit:
    given = {"name": "semel", "command": ["/bin/true"], "data_dir": "/srv", "is_system": True} | changed
    return Unit(**given)  # type: ignore[arg-type]


UNITS = {
    "of-a-user": unit(is_system=False),
    "of-the-machine": unit(),
    "with-an-owner": unit(user="root", data_dir="/srv", has_state_directory=False, home_is_read=True),
    "odd": unit(
        user="root",
        command=["/bin/true", "a b", "%n", "$HOME", 'q"q', "b\\b", "n\nn", "", "ä"],
        data_dir="/srv/a b%c",
        has_state_directory=False,
    ),
}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_the_unit_without_a_word(tmp_path: Path, name: str) -> None:
    file = tmp_path / "semel.service"
    file.write_text(unit_text(UNITS[name]))
    scope = "--system" if UNITS[name].is_system else "--user"
    done = subprocess.run(
        ["systemd-analyze", scope, "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)},
    )
    words = [line for line in done.stderr.splitlines() if "semel" in line]
    assert (done.returncode, words) == (0, []), done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_a_unit_with_a_mistake_is_not_accepted(tmp_path: Path) -> None:
    """The test above can fail."""
    file = tmp_path / "semel.service"
    file.write_text(unit_text(unit()).replace("Type=notify", "Type=notified"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    assert "semel.service" in done.stderr


def test_a_real_systemd_starts_watches_and_stops_it(tmp_path: Path) -> None:
    if why := obstacle():
        pytest.skip(f"no systemd of a user can be run: {why}")
    script = tmp_path / "life.sh"
    script.write_text(LIFE.replace("PY", sys.executable, 1))
    manager = [sys.executable, "-m", "support.cli.user_manager", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--mount", *manager, "bash", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        start_new_session=True,  # Signals of the script stay there.
        cwd=Path(__file__).parents[1],
    )
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert done.returncode == 0, (done.stdout, done.stderr, log)
    assert '"SIGTERM received"' in log
    assert "recovers nothing" in log


def test_paths_become_absolute_and_options_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.properties").write_text("num.partitions=2\n")
    monkeypatch.setenv("SEMEL_DATA_DIR", "of-this-shell")
    options = "--config own.properties --data-dir d -X retention.ms=5 -X num.partitions=3 --log-level WARN"
    result = run("print", "--user", *options.split())
    assert result.exit_code == 0, result.output
    (line,) = [one for one in result.output.splitlines() if one.startswith("ExecStart=")]
    assert line == (
        f"ExecStart={sys.executable} -P -m semel broker --data-dir {tmp_path}/d -X retention.ms=5 -X num.partitions=3 "
        f"--config {tmp_path}/own.properties --log-level WARN"
    )


def test_data_is_kept_where_services_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert f"--data-dir {tmp_path}/other\n" in run("print", "--user", "--name", "other").output
    of_machine = run("print", "--system", "--run-as", "root").output
    assert "--data-dir /var/lib/semel\n" in of_machine
    assert "\nStateDirectory=semel\n" in of_machine


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["print", "--user", "--run-as", "root"], "--run-as is for --system"),
        (["print", "--system", "--run-as", "nobody-at-all"], "there is no user 'nobody-at-all' here"),
        (["print", "--system", "--data-dir", "/srv/semel"], "name who runs the broker with --run-as USER"),
        (["print", "--user", "-X", "log.dirs=/x"], "name the data directory with --data-dir"),
        (["print", "--user", "-X", "num.partition=3"], "did you mean num.partitions?"),
        (["print", "--user", "--listen", "9092"], "'9092' is no HOST:PORT"),
        (["print", "--user", "--metrics", "9404"], "expected HOST:PORT"),
        (["print", "--user", "--nonsense"], "No such option"),
        (["print", "--user", "surplus"], "unexpected extra argument"),
        (["print", "--user", "--name", "a/b"], "'a/b' is not a valid name"),
        (["uninstall", "--user", "--name", "never-installed"], "there is no service never-installed"),
    ],
)
def test_mistakes_are_told_at_once(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}"


def test_without_a_systemd_the_unit_is_written_and_the_rest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path}/nobody")
    result = run("install", "--user", "--data-dir", str(tmp_path / "data"))
    assert result.exit_code == 0, (result.output, result.exception)
    path = tmp_path / "config" / "systemd" / "user" / "semel.service"
    assert f"{path} is written" in result.output
    assert "  systemctl --user enable --now semel.service\n" in result.output
    assert "Type=notify" in path.read_text()
    assert (tmp_path / "data").is_dir()
    assert run("uninstall", "--user").exit_code == 0
    assert not path.exists()
    assert (tmp_path / "data").is_dir()


def test_a_service_of_the_machine_needs_a_program_that_all_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(service, "__file__", str(closed / "service.py"))
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    result = run("print", "--system")
    assert f"because {closed} is closed to others" in str(result.exception)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_no_word_of_a_command_line_escapes_its_quotes(word: str) -> None:
    text = quoted(word)
    assert "\n" not in text
    bare = text.replace("\\\\", "").replace('\\"', "").replace("%%", "").replace("$$", "")
    if text.startswith('"'):
        assert bare.endswith('"')
        bare = bare[1:-1]
        assert '"' not in bare
    else:
        assert word == text
        assert not set(bare) & set("\" '\\;")
    assert "%" not in bare
    assert "$" not in bare

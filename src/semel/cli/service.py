"""`semel service`: a broker that systemd starts, watches and stops.

Role.   Writes a unit for `semel broker` with the options given, and hands it to systemd; takes it away again.
Rules.  * The broker's options are checked here, so that a mistake is told now and not to a journal.
        * A unit needs paths that hold everywhere: relative ones become absolute.
        * Where no systemd runs, the unit is written all the same, and the commands that are left are printed.
        * Data is never removed.
Elsewhere. The unit's text: `unit_file`. What the broker tells systemd: `broker.supervised`.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from semel.cli.broker import command as broker_command
from semel.cli.broker import settings_of
from semel.cli.options import BROKER_FLAGS, in_flags
from semel.cli.unit_file import Unit, unit_text
from semel.errors import ConfigError, SemelError

_HOMES: Final = ("/home", "/root", "/run/user")
_PATHS: Final = ("data_dir", "file")
"""Options of the broker whose values are paths."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
SYSTEM_UNITS: Final = Path("/etc/systemd/system")


class ServiceError(SemelError):
    """The service cannot be had so."""


@click.group(
    name="service",
    epilog="Example: semel service install --user --data-dir ~/semel -X num.partitions=4",
)
def command() -> None:
    """A broker as a service of systemd: started at boot, restarted after a crash, stopped in order."""


def _scope(function: click.decorators.FC) -> click.decorators.FC:
    """`--user` or `--system`, and `--name`."""
    function = click.option(
        "--name", default="semel", show_default=True, callback=_name, help="The service's name."
    )(function)
    return click.option(
        "--user/--system",
        "of_user",
        default=None,
        help="A service of yours, or one of the machine.  [default: --system for root, else --user]",
    )(function)


def _name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    name = value.removesuffix(".service")
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"{value!r} is not a valid name: use letters, digits, '.', '_' and '-'.")
    return name


_UNIT_ARGUMENTS: Final = {"ignore_unknown_options": True, "allow_interspersed_args": True}
_run_as = click.option(
    "--run-as",
    metavar="USER",
    help="Who runs a service of the machine.  [default: a user that systemd makes for it]",
)
_broker_arguments = click.argument(
    "broker_options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF semel broker]..."
)


@command.command(
    name="print",
    context_settings=_UNIT_ARGUMENTS,
    epilog="Example: semel service print --system --listen 0.0.0.0:9092 > semel.service",
)
@_scope
@_run_as
@_broker_arguments
def print_unit(of_user: bool | None, name: str, run_as: str | None, broker_options: tuple[str, ...]) -> None:
    """Print the unit that `install` would write."""
    click.echo(unit_text(_unit(_is_user(of_user), name, run_as, broker_options)), nl=False)


@command.command(
    context_settings=_UNIT_ARGUMENTS,
    epilog="Example: semel service install --user --data-dir ~/semel --metrics 127.0.0.1:9404",
)
@_scope
@_run_as
@click.option("--start/--no-start", default=True, show_default=True, help="Start it now and at every boot.")
@_broker_arguments
def install(
    of_user: bool | None, name: str, run_as: str | None, start: bool, broker_options: tuple[str, ...]
) -> None:
    """Write a unit for a broker with these options, and start it."""
    is_user = _is_user(of_user)
    unit = _unit(is_user, name, run_as, broker_options)
    path = _unit_path(is_user, name)
    try:
        _make_data_dir(unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(unit_text(unit), encoding="utf-8")
    except OSError as error:
        raise ServiceError(
            f"{error.filename} cannot be written: {error.strerror}{_rights(is_user)}"
        ) from error
    click.echo(f"{path} is written; the data is kept in {unit.data_dir}")
    rest = [["daemon-reload"], ["enable", "--now", f"{name}.service"]] if start else [["daemon-reload"]]
    if not _runs(is_user):
        _tell_rest(is_user, rest)
        return
    for arguments in rest:
        _systemctl(is_user, *arguments)
    if start:
        click.echo(
            f"{name} runs: semel service status {_flag(is_user)}; journalctl {_flag(is_user)} -u {name}"
        )
    if start and is_user:
        click.echo("It ends with your last session, unless you are let to linger: loginctl enable-linger")


@command.command(epilog="Example: semel service uninstall --user")
@_scope
def uninstall(of_user: bool | None, name: str) -> None:
    """Stop the service and remove its unit; the data stays."""
    is_user = _is_user(of_user)
    path = _unit_path(is_user, name)
    if not path.exists():
        raise ServiceError(f"there is no service {name}: {path} does not exist")
    runs = _runs(is_user)
    if runs:
        _systemctl(is_user, "disable", "--now", f"{name}.service")
    try:
        path.unlink()
    except OSError as error:
        raise ServiceError(f"{path} cannot be removed: {error.strerror}{_rights(is_user)}") from error
    if runs:
        _systemctl(is_user, "daemon-reload")
    click.echo(f"{path} is removed; the data stays")


@command.command(epilog="Example: semel service status --user")
@_scope
def status(of_user: bool | None, name: str) -> None:
    """Show systemd's status of the service, with its last lines of log."""
    is_user = _is_user(of_user)
    if not _runs(is_user):
        raise ServiceError(f"no systemd answers to systemctl {_flag(is_user)} here")
    done = subprocess.run(
        ["systemctl", _flag(is_user), "--no-pager", "status", f"{name}.service"], check=False
    )
    raise SystemExit(
        min(done.returncode, 1)
    )  # systemctl has codes of its own for a service that does not run.


def _is_user(of_user: bool | None) -> bool:
    return os.geteuid() != 0 if of_user is None else of_user


def _flag(is_user: bool) -> str:
    return "--user" if is_user else "--system"


def _rights(is_user: bool) -> str:
    return "" if is_user else "; a service of the machine needs root's rights: sudo, or --user"


def _unit_path(is_user: bool, name: str) -> Path:
    units = _base("XDG_CONFIG_HOME", ".config") / "systemd" / "user" if is_user else SYSTEM_UNITS
    return units / f"{name}.service"


def _base(variable: str, below_home: str) -> Path:
    given = os.environ.get(variable, "")
    return Path(given) if given.startswith("/") else Path.home() / below_home


# The unit


def _unit(is_user: bool, name: str, run_as: str | None, options: Sequence[str]) -> Unit:
    """What the options mean, with every path absolute."""
    if run_as is not None:
        _check_user(is_user, run_as)
    with broker_command.make_context("semel broker", list(options)) as checked:
        _check_settings(checked.params)
        raw: dict[str, Any] = broker_command.make_parser(checked).parse_args(list(options))[0]
    raw |= {key: str(Path(raw[key]).expanduser().absolute()) for key in _PATHS if key in raw}
    own = str(_base("XDG_STATE_HOME", ".local/state") / name) if is_user else f"/var/lib/{name}"
    data_dir = raw.setdefault("data_dir", own)
    words = [sys.executable, "-P", "-m", "semel", "broker"]
    for option in broker_command.params:
        given = raw.get(option.name or "", [])
        for value in given if isinstance(given, list) else [given]:
            words += [max(option.opts, key=len), value]
    read = [os.path.realpath(sys.executable), __file__, *([raw["file"]] if "file" in raw else [])]
    if not is_user and run_as is None:
        _check_for_anybody(data_dir, own, read)
    return Unit(
        name=name,
        command=words,
        data_dir=data_dir,
        is_system=not is_user,
        user=run_as,
        has_state_directory=data_dir == own,
        home_is_read=any(path.startswith(tuple(f"{home}/" for home in _HOMES)) for path in [*read, data_dir]),
    )


def _check_user(is_user: bool, run_as: str) -> None:
    if is_user:
        raise click.UsageError("--run-as is for --system: a service of yours runs as you.")
    try:
        pwd.getpwnam(run_as)
    except KeyError:
        raise click.BadParameter(f"there is no user {run_as!r} here.", param_hint="--run-as") from None


def _check_settings(given: dict[str, Any]) -> None:
    """A mistake is told now, and not to a journal."""
    from semel.broker.config import BrokerConfig
    from semel.broker.metrics.listener import address_of

    for key in ("log.dirs", "log.dir"):
        if key in given["settings"]:
            raise click.UsageError(f"name the data directory with --data-dir, not with -X {key}.")
    try:
        BrokerConfig.of(
            settings_of(
                given["listen"],
                given["data_dir"],
                given["broker_id"],
                given["settings"],
                given["file"],
                zookeeper=given["zookeeper"],
            )
        )
        if given["metrics"] is not None:
            address_of(given["metrics"])
    except ConfigError as error:
        raise ConfigError(in_flags(str(error), BROKER_FLAGS)) from error


def _check_for_anybody(data_dir: str, own: str, read: Sequence[str]) -> None:
    """A user that systemd makes can use all of this."""
    if data_dir != own:
        raise click.UsageError(
            f"--data-dir {data_dir} must be somebody's: name who runs the broker with --run-as USER, or leave --data-dir "
            f"out and get {own}."
        )
    for path in read:
        for above in Path(path).parents:
            if above.exists() and not above.stat().st_mode & 0o001:
                raise ServiceError(
                    f"{path} cannot be read by the user that systemd makes for the service, because {above} is closed to "
                    "others: install Semel elsewhere, as in a venv below /opt, or name who runs it with --run-as USER"
                )


def _make_data_dir(unit: Unit) -> None:
    if unit.is_system and unit.has_state_directory:
        return  # systemd makes it, for the right user.
    made = not Path(unit.data_dir).exists()
    Path(unit.data_dir).mkdir(parents=True, exist_ok=True, mode=0o750)
    if made and unit.user is not None:
        shutil.chown(unit.data_dir, unit.user)


# systemd


def _runs(is_user: bool) -> bool:
    """Whether a systemd listens to us."""
    if shutil.which("systemctl") is None:
        return False
    asked = subprocess.run(
        ["systemctl", _flag(is_user), "show-environment"], capture_output=True, check=False
    )
    return asked.returncode == 0


def _systemctl(is_user: bool, *arguments: str) -> None:
    done = subprocess.run(
        ["systemctl", _flag(is_user), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise ServiceError(f"systemctl {_flag(is_user)} {' '.join(arguments)} failed: {said}")


def _tell_rest(is_user: bool, rest: Sequence[Sequence[str]]) -> None:
    click.echo(f"No systemd answers to systemctl {_flag(is_user)} here. Where one does:", err=True)
    for arguments in rest:
        click.echo(f"  systemctl {_flag(is_user)} {' '.join(arguments)}", err=True)

"""Profiles: how clusters are reached, by name, in one file of TOML.

Role.   `chosen` gives the profile that holds for a command; `semel profile` lists, shows and edits them with the functions here.
Rules.  * The file is `semel/config.toml` in XDG_CONFIG_HOME or `~/.config`: `current = "NAME"`, and a table `[profiles.NAME]` with
          `bootstrap` and settings by Kafka's names.
        * A profile says how a cluster is reached and nothing else. Secrets stand elsewhere: `env:NAME` or `file:PATH`. A secret in plain
          is refused, so that no file of settings and no output has one.
        * An edit keeps the user's comments and order: lines are added and removed, and the result is read again before it is kept.
"""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from semel.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_HEADER: Final = re.compile(r"\s*\[")
_CURRENT: Final = re.compile(r"\s*current\s*=")
_ENV, _FILE = "env:", "file:"
REACH: Final = frozenset(
    {
        "client.id",
        "default.api.timeout.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""The settings that decide how a cluster is reached, beside those of TLS and SASL."""


class Profile(NamedTuple):
    """A cluster by name; `settings` as they stand in the file, with references for secrets."""

    name: str
    bootstrap: str | None
    settings: dict[str, str]


class Profiles(NamedTuple):
    """What the file says."""

    current: str | None
    by_name: dict[str, Profile]

    def of(self, name: str, path: Path) -> Profile:
        if name not in self.by_name:
            there = ", ".join(self.by_name) or "none"
            raise ConfigError(
                f"{path} has no profile {name!r}; there is {there}: make one with 'semel profile create'"
            )
        return self.by_name[name]


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    """The user's file; it need not exist."""
    home = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()
    return folder / "semel" / "config.toml"


def read(path: Path) -> Profiles:
    """The profiles in a file; none if there is no file. Raises `ConfigError` with the place of what is wrong."""
    return parsed(_text(path), path)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"the profiles in {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text: byte {error.start} is not UTF-8") from error


def parsed(text: str, path: Path) -> Profiles:
    """The profiles in the text of a file."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    if unknown := sorted(document.keys() - {"current", "profiles"}):
        raise ConfigError(f"{path}: {unknown[0]} is not known there; there are current and [profiles.NAME]")
    tables = document.get("profiles", {})
    current = document.get("current")
    if not isinstance(tables, dict) or not isinstance(current, str | None):
        raise ConfigError(f'{path}: write current = "NAME" and tables [profiles.NAME]')
    return Profiles(current, {name: _profile(name, table, path) for name, table in tables.items()})


def _profile(name: str, table: object, path: Path) -> Profile:
    if not isinstance(table, dict):
        raise ConfigError(
            f"{path}: profiles.{name} is not a table: write [profiles.{name}] and settings below it"
        )
    settings = _flat(table, f"{path}: profile {name}")
    return Profile(name, settings.pop("bootstrap", None), checked(settings, f"{path}: profile {name}"))


def _flat(table: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, str]:
    """TOML reads a dotted name as tables in tables."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, where, f"{prefix}{key}.")
        elif isinstance(value, bool):
            found[prefix + key] = str(value).lower()
        elif isinstance(value, str | int):
            found[prefix + key] = str(value)
        else:
            raise ConfigError(f"{where}: {prefix}{key} is neither a text nor a number")
    return found


def checked(settings: dict[str, str], where: str) -> dict[str, str]:
    """The settings, if a profile may have them."""
    from semel.client.security_keys import is_security

    for key, value in settings.items():
        if key not in REACH and not is_security(key):
            raise ConfigError(
                f"{where}: a profile says how a cluster is reached, and {key} does not: give it with -X {key}=…"
            )
        if _is_secret(key) and not value.startswith((_ENV, _FILE)):
            raise ConfigError(
                f"{where}: {key} is a secret and must not stand in plain: write env:NAME for an environment variable, or file:PATH"
            )
    return settings


def _is_secret(key: str) -> bool:
    from semel.client.security_keys import SECURITY_KEYS
    from semel.core.metadata.config_types import PASSWORD

    return any(one.name == key and one.type is PASSWORD for one in SECURITY_KEYS)


def resolved(profile: Profile, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings with secrets in place of their references."""
    return {
        key: _secret(profile.name, key, value, environment) if _is_secret(key) else value
        for key, value in profile.settings.items()
    }


def _secret(name: str, key: str, reference: str, environment: Mapping[str, str]) -> str:
    if reference.startswith(_ENV):
        variable = reference.removeprefix(_ENV)
        if variable not in environment:
            raise ConfigError(
                f"profile {name}: {key} is in the environment variable {variable}, which is not set"
            )
        return environment[variable]
    path = Path(reference.removeprefix(_FILE)).expanduser()
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(
            f"profile {name}: {key} is in the file {path}, which cannot be read: {reason}"
        ) from error


def chosen(given: str | None, path: Path, environment: Mapping[str, str] = os.environ) -> Profile | None:
    """The profile that holds: of `--profile`, else of SEMEL_PROFILE, else the current one; none if there is none."""
    name = given or environment.get("SEMEL_PROFILE")
    if name is None and not path.exists():
        return None
    profiles = read(path)
    name = name or profiles.current
    return None if name is None else profiles.of(name, path)


# Editing


def create(path: Path, profile: Profile) -> None:
    """Add a profile and make it the current one."""
    if not _NAME.fullmatch(profile.name):
        raise ConfigError(f"{profile.name!r} is not a name of a profile: use letters, digits, _ and -")
    checked(profile.settings, f"profile {profile.name}")
    text, before = _text(path), read(path)
    if profile.name in before.by_name:
        raise ConfigError(
            f"{path} has a profile {profile.name} already: delete it first, with 'semel profile delete {profile.name}'"
        )
    named = {"bootstrap": profile.bootstrap, **profile.settings}
    lines = [f"{key} = {_quoted(value)}" for key, value in named.items() if value is not None]
    table = "\n".join([f"[profiles.{profile.name}]", *lines])
    text = f"{text.rstrip()}\n\n{table}\n" if text.strip() else f"{table}\n"
    after = Profiles(profile.name, {**before.by_name, profile.name: profile})
    _keep(path, _with_current(text, profile.name), after)


def use(path: Path, name: str) -> None:
    """Make a profile the current one."""
    before = read(path)
    before.of(name, path)
    _keep(path, _with_current(_text(path), name), before._replace(current=name))


def delete(path: Path, name: str) -> None:
    """Remove a profile; if it is the current one, none is."""
    before = read(path)
    before.of(name, path)
    mine = re.compile(rf"\s*\[\s*profiles\s*\.\s*{re.escape(name)}\s*[.\]]")
    kept, inside = [], False
    for line in _text(path).splitlines():
        if _HEADER.match(line):
            inside = mine.match(line) is not None
        if not inside:
            kept.append(line)
    text = "\n".join(kept).rstrip() + "\n"
    current = None if before.current == name else before.current
    rest = {key: one for key, one in before.by_name.items() if key != name}
    _keep(path, _with_current(text, current), Profiles(current, rest))


def _with_current(text: str, name: str | None) -> str:
    """The text with this profile as the current one: its line stands before the first table."""
    lines = text.splitlines()
    tables = next((at for at, line in enumerate(lines) if _HEADER.match(line)), len(lines))
    head = [line for line in lines[:tables] if not _CURRENT.match(line)]
    if name is not None:
        while head and not head[-1].strip():
            head.pop()
        head += [f"current = {_quoted(name)}", ""]
    return "\n".join([*head, *lines[tables:]]).rstrip() + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML: JSON's, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _keep(path: Path, text: str, expected: Profiles) -> None:
    """Replace the file, all or nothing, if the text says what it is to say."""
    if parsed(text, path) != expected:
        raise ConfigError(f"{path} is written in a way this command cannot edit: change it by hand")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, os.path.realpath(path))  # A link stays one.
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error

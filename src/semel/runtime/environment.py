"""The environment of a process: the commit of its code, and the place of a measurement.

Role.   `environment` describes this process: date, commit, Python, processor. Benchmarks and campaigns print it. `commit` is what
        `semel --version` names as well.
Rules.  `hatch_build.py` loads this file alone: it imports the standard library only.
"""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final

_GIT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Environment:
    """Place and time of a measurement, and the command that repeats it."""

    date: str
    commit: str
    python: str
    processor: str
    cores: int
    command: str

    @property
    def text(self) -> str:
        """The text for a documentation page."""
        return (
            f"Measured {self.date} at commit {self.commit}, {self.python}, {self.processor}, {self.cores} cores:\n\n"
            f"    {self.command}\n"
        )


def environment(command: str) -> Environment:
    """The current machine and checkout."""
    return Environment(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        processor=_processor(Path("/proc/cpuinfo")),
        cores=os.cpu_count() or 1,
        command=command,
    )


def commit() -> str:
    """The commit this copy comes from: written by the build, or the checkout's; "unknown" if neither knows."""
    try:
        written = import_module("semel._commit")
    except ModuleNotFoundError:
        return commit_of_checkout(Path(__file__).parent.parent)
    return str(written.COMMIT)


def commit_of_checkout(package: Path) -> str:
    """The commit of the checkout that has this folder among its files, marked if files of it differ."""
    git = ["git", "-C", str(package)]
    try:
        # A venv inside somebody's repository has no commit of ours.
        _said([*git, "ls-files", "--error-unmatch", "__init__.py"])
        commit = _said([*git, "rev-parse", "--short=10", "HEAD"])
        changes = _said([*git, "status", "--porcelain", "--", "."])
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return commit + (" with uncommitted changes" if changes else "")


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)
    return done.stdout.strip()


def _processor(cpuinfo: Path) -> str:
    if cpuinfo.exists():  # Linux. Elsewhere the platform module knows at least the architecture.
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            key, _colon, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown processor"

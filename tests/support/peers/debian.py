"""Programs that tests need and a machine's package manager keeps: `python tests/support/peers/debian.py --if-possible`.

Role.   Installs what is missing of them, where apt-get and root are at hand. Tests look for each by themselves, and are skipped without.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

PROGRAMS: Final = {
    ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"): (
        "chromium",
        "fonts-dejavu-core",
    ),
    ("fish",): ("fish",),
    ("zsh",): ("zsh",),
}
"""The names of each program, and its packages."""
_INSTALL_SECONDS: Final = 900


def missing() -> list[str]:
    """The packages of programs that are not there."""
    return [
        package
        for names, packages in PROGRAMS.items()
        if not any(map(shutil.which, names))
        for package in packages
    ]


def why_not() -> str | None:
    """Why nothing can be installed here; None if it can."""
    if shutil.which("apt-get") is None:
        return "no apt-get here: install them with this machine's package manager"
    if os.geteuid() != 0:
        return "not root"
    return None


def install(packages: Sequence[str]) -> None:
    """By apt-get."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (
        ["update", "--quiet"],
        ["install", "--yes", "--quiet", "--no-install-recommends", *packages],
    ):
        subprocess.run(
            ["apt-get", *words],
            env=environment,
            check=True,
            timeout=_INSTALL_SECONDS,
            stdout=subprocess.DEVNULL,
        )


def main() -> int:
    """Have them installed; with --if-possible, say why not instead of failing."""
    parser = argparse.ArgumentParser(
        description="A browser and shells, for the tests of pictures and of completion."
    )
    parser.add_argument("--if-possible", action="store_true")
    given = parser.parse_args()
    packages = missing()
    if not packages:
        return 0
    reason = why_not()
    if reason is None:
        try:
            install(packages)
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"apt-get did not install them: {error}"
    if reason is None:
        return 0
    print(f"no {', '.join(packages)}: {reason}; tests that need them are skipped", file=sys.stderr)
    return 0 if given.if_possible else 1


if __name__ == "__main__":
    raise SystemExit(main())

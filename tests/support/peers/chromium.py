"""A real browser for the tests of pictures and pages: Debian's Chromium, driven by Playwright.

Role.   `find` says where it is; `python tests/support/peers/chromium.py --if-possible` installs it where apt-get and root are at hand.
        Playwright's own download is not used: a machine's package manager is what keeps a browser patched.
"""

import argparse
import os
import shutil
import subprocess
import sys
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_INSTALL_SECONDS: Final = 900
ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find() -> str | None:
    """The program, if there is one."""
    return next((found for name in _NAMES if (found := shutil.which(name)) is not None), None)


def why_not() -> str | None:
    """Why it cannot be installed here; None if it can."""
    if shutil.which("apt-get") is None:
        return "no apt-get here: install Chromium with this machine's package manager"
    if os.geteuid() != 0:
        return "not root: run apt-get install chromium"
    return None


def install() -> None:
    """By apt-get."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (
        ["update", "--quiet"],
        ["install", "--yes", "--quiet", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        subprocess.run(
            ["apt-get", *words],
            env=environment,
            check=True,
            timeout=_INSTALL_SECONDS,
            stdout=subprocess.DEVNULL,
        )


def main() -> int:
    """Have it installed; with --if-possible, say why not instead of failing."""
    parser = argparse.ArgumentParser(description="Chromium, for the tests of pictures.")
    parser.add_argument("--if-possible", action="store_true")
    given = parser.parse_args()
    if find() is not None:
        return 0
    reason = why_not()
    if reason is None:
        try:
            install()
        except (OSError, subprocess.SubprocessError) as error:
            reason = f"apt-get did not install it: {error}"
    if reason is None:
        return 0
    print(f"no Chromium: {reason}; the tests of pictures are skipped", file=sys.stderr)
    return 0 if given.if_possible else 1


if __name__ == "__main__":
    raise SystemExit(main())

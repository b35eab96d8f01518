"""A real browser for the tests of pictures and pages: Debian's Chromium, driven by Playwright.

Role.   `find` says where it is; `debian` installs it. Playwright's own download is not used: a machine's package manager is what keeps a
        browser patched.
"""

import shutil
from typing import Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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

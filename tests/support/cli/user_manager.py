"""A systemd for one test: the manager of a user, with /run and the homes of its own.

Run as a program, `unshare --mount python -m support.cli.user_manager DIRECTORY COMMAND…` runs the command where `systemctl --user`
answers. The mount namespace hides the manager from the machine, which may have no systemd running.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

MANAGER: Final = Path("/lib/systemd/systemd")
_PATIENCE_SECONDS: Final = 60.0


def obstacle() -> str | None:
    """Why no manager can be run here."""
    for tool in ("systemctl", "unshare"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if not MANAGER.exists():
        return f"{MANAGER} does not exist"
    if os.geteuid() != 0:
        return "mounting a /run of its own needs root's rights"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else f"/run cannot be mounted here: {tried.stderr.decode().strip()}"


def environment(home: Path) -> dict[str, str]:
    """Where a user's manager and `semel service` look for everything."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "XDG_RUNTIME_DIR": "/run/user/0",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
    }


def main() -> int:
    """Mount, start, run, and end the manager with everything it started."""
    home, command = Path(sys.argv[1]), sys.argv[2:]
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    for made in ("/run/systemd/system", "/run/user/0"):
        os.makedirs(made, mode=0o700)
    where = environment(home)
    with (home / "manager.log").open("wb") as log:
        manager = subprocess.Popen(
            [str(MANAGER), "--user", "--log-target=console"], env=where, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        asking = ["systemctl", "--user", "show-environment"]
        while subprocess.run(asking, env=where, capture_output=True, check=False).returncode:
            if manager.poll() is not None or time.monotonic() > deadline:
                print((home / "manager.log").read_text(), file=sys.stderr)
                return 99
            time.sleep(0.1)
        return subprocess.run(command, env=where, check=False).returncode
    finally:
        manager.send_signal(signal.SIGRTMIN + 24)  # The manager's own: stop every unit, then end.
        try:
            manager.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            manager.kill()


if __name__ == "__main__":
    sys.exit(main())

"""The text of a systemd unit for a broker.

Role.   `unit_text` says how systemd runs `semel broker` with given options: pure, from a `Unit`.
Flow.   `cli.service` fills the `Unit`, and prints or installs the text.
Rules.  * Type=notify: a service that needs the broker starts once clients can connect (`broker.supervised`).
        * Only what is needed is writable: the data directory, and caches.
        * A user's manager may not sandbox as the system's does: a unit of a user has the lines that work there.
        * Restart on failure alone, not after a mistake in the options (exit code 2): it would fail again.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OPEN_FILES: Final = 524_288
"""Every segment and every connection needs one: systemd's own upper limit."""
STOP_SECONDS: Final = 120
"""A broker that still closes its logs asks for more, and gets it."""
WATCHDOG_SECONDS: Final = 60
"""A loop that is silent for so long hangs: the process is ended with SIGABRT, and started again."""
_SPECIAL: Final = re.compile(r"[^A-Za-z0-9_@+=:,./-]")
_SANDBOX: Final = (
    "ProtectSystem=strict",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
    "RemoveIPC=yes",
)
"""Not among them: MemoryDenyWriteExecute, because kernels are compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One broker as a service."""

    name: str
    command: Sequence[str]
    data_dir: str
    is_system: bool
    user: str | None = None
    """Who runs it, in a system's unit; None for a user that systemd makes for it."""
    has_state_directory: bool = True
    """The data directory is the one that systemd makes."""
    home_is_read: bool = False
    """The program, its settings or its data are in a home directory."""


def unit_text(unit: Unit) -> str:
    """The file's text."""
    return "\n".join(
        [
            "# Written by `semel service`. Changes of yours: `systemctl edit`, which outlives a new installation.",
            "[Unit]",
            f"Description=Semel broker ({unit.name})",
            "StartLimitIntervalSec=0",
            *(_dependencies(unit) if unit.is_system else ()),
            "",
            "[Service]",
            "Type=notify",
            "NotifyAccess=main",
            f"ExecStart={' '.join(quoted(word) for word in unit.command)}",
            "UMask=0027",
            "NoNewPrivileges=yes",
            "Restart=on-failure",
            "RestartSec=5",
            "RestartPreventExitStatus=2",
            "KillMode=mixed",
            f"TimeoutStopSec={STOP_SECONDS}",
            f"WatchdogSec={WATCHDOG_SECONDS}",
            *(_of_system(unit) if unit.is_system else ()),
            "",
            "[Install]",
            f"WantedBy={'multi-user.target' if unit.is_system else 'default.target'}",
            "",
        ]
    )


def _dependencies(unit: Unit) -> list[str]:
    lines = ["After=network-online.target", "Wants=network-online.target"]
    if not unit.has_state_directory:
        lines += [
            f"RequiresMountsFor={path_word(unit.data_dir)}",
            f"AssertPathIsDirectory={unit.data_dir.replace('%', '%%')}",  # It reads no quotes.
        ]
    return lines


def _of_system(unit: Unit) -> list[str]:
    return [
        "DynamicUser=yes" if unit.user is None else f"User={unit.user}",
        *(
            (f"StateDirectory={unit.name}", "StateDirectoryMode=0750")
            if unit.has_state_directory
            else (f"ReadWritePaths={path_word(unit.data_dir)}",)
        ),
        f"CacheDirectory={unit.name}",
        f"Environment=SEMEL_KERNEL_CACHE=/var/cache/{unit.name}/kernels",
        f"LimitNOFILE={OPEN_FILES}",
        f"ProtectHome={'read-only' if unit.home_is_read else 'yes'}",
        *_SANDBOX,
    ]


def quoted(word: str) -> str:
    """A word of a command line as systemd reads it: no variable and no specifier is meant."""
    if word and not _SPECIAL.search(word):
        return word
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"' + text.replace("\n", "\\n").replace("\t", "\\t") + '"'


def path_word(path: str) -> str:
    """A path in a directive, where one word is one path."""
    return (
        path
        if not _SPECIAL.search(path)
        else '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'
    )

"""Words for systemd: the right datagrams where it listens, silence where it does not, and never an error for the broker.

Method: a socket of ours in the place of systemd's. A real systemd is in `cli/test_service.py`.
"""

import logging
import os
import socket
from pathlib import Path

import pytest

from semel.runtime.service_manager import ServiceManager


def listening(address: str) -> socket.socket:
    reading = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reading.bind(address)
    reading.settimeout(30)
    return reading


def test_words_come_as_one_datagram_to_a_path_and_to_an_abstract_name(tmp_path: Path) -> None:
    name = f"semel-{os.getpid()}-{tmp_path.name}"
    for announced, bound in ((str(tmp_path / "s"), str(tmp_path / "s")), (f"@{name}", f"\0{name}")):
        with listening(bound) as reading:
            ServiceManager.of_environment({"NOTIFY_SOCKET": announced}).tell(READY=1, STATUS="serves")
            assert reading.recv(1000) == b"READY=1\nSTATUS=serves"


@pytest.mark.parametrize("announced", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_nobody_listens(announced: dict[str, str]) -> None:
    manager = ServiceManager.of_environment(announced)
    assert manager.address is None
    manager.tell(READY=1)


def test_a_manager_that_is_gone_is_a_warning_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    manager = ServiceManager.of_environment({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with caplog.at_level(logging.WARNING):
        manager.tell(READY=1)
        manager.tell(WATCHDOG=1)
    assert [one.getMessage() for one in caplog.records] == [
        f"the service manager at {tmp_path / 'gone'} cannot be told: [Errno 2] No such file or directory"
    ]


def test_a_manager_that_reads_nothing_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with listening(str(tmp_path / "s")):
        manager = ServiceManager(str(tmp_path / "s"))
        for _ in range(10_000):
            manager.tell(STATUS="x" * 1000)
        assert manager.address is not None
    assert caplog.records == []


def test_the_watchdog_is_of_the_process_it_names() -> None:
    own = str(os.getpid())
    for given, seconds in (
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": own}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": own + "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ):
        assert ServiceManager.of_environment(given).watchdog_seconds == seconds

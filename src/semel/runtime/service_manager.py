"""What a service manager is told: systemd's notifications, or nothing where nobody listens.

Role.   `ServiceManager.of_environment` finds the socket and the watchdog that systemd announced; `tell` sends one datagram.
Flow.   `broker.supervised` decides on the words. https://www.freedesktop.org/software/systemd/man/sd_notify.html
Rules.  A manager that cannot be told is a warning, once: the process does not depend on it.
"""

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from semel.runtime.config import notify_socket, watchdog_seconds

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ServiceManager:
    """The other end of `NOTIFY_SOCKET`."""

    address: str | None
    """A path, or a name in the abstract namespace, which begins with @; None if nobody listens."""
    watchdog_seconds: float | None = None
    """The process is killed if it is silent for so long."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> "ServiceManager":
        """The manager that started this process."""
        return cls(notify_socket(environment), watchdog_seconds(environment, os.getpid()))

    def tell(self, **words: str | int) -> None:
        """Send these assignments together."""
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        datagram = "\n".join(f"{name}={value}" for name, value in words.items()).encode()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)  # A manager that does not read must not stop the loop.
                sending.connect(address)
                sending.send(datagram)
        except BlockingIOError:
            pass  # It has much to read; the next words come soon.
        except OSError as error:
            _logger.warning("the service manager at %s cannot be told: %s", self.address, error)
            self.address = None

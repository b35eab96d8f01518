"""`zookeeper.connect`: servers and a chroot, as Kafka reads them.

Role.   `parse` makes `Servers` of `host:port,host:port/chroot`.
Rules.  * A port that is left out is 2181. An IPv6 address stands in brackets.
        * The chroot stands once, behind the last server. It is an absolute path; `/` alone is none.
"""

import re
from dataclasses import dataclass
from typing import Final

from semel.core.zookeeper.paths import is_valid
from semel.errors import ConfigError

DEFAULT_PORT: Final = 2181
_SERVER: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<name>[^\[\]:\s/,]+))(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class Servers:
    """The members of an ensemble, and the node below which the cluster's tree is."""

    addresses: tuple[tuple[str, int], ...]
    chroot: str = ""

    def __str__(self) -> str:
        hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.addresses)
        return ",".join(hosts) + self.chroot


def parse(text: str) -> Servers:
    """Raises `ConfigError` for a text that names no servers."""
    hosts, slash, rest = text.strip().partition("/")
    chroot = "/" + rest.rstrip("/") if slash else ""
    if chroot == "/":
        chroot = ""
    if chroot and ("," in chroot or not is_valid(chroot)):  # A comma: somebody gave each server a chroot.
        raise ConfigError(
            f"zookeeper.connect={text!r}: {chroot!r} is no path of a node; it goes behind the last server, as in "
            "'zk1:2181,zk2:2181/kafka'"
        )
    return Servers(tuple(_address(one.strip(), text) for one in hosts.split(",")), chroot)


def _address(server: str, text: str) -> tuple[str, int]:
    found = _SERVER.fullmatch(server)
    port = int((found and found["port"]) or DEFAULT_PORT)
    if found is None or not 0 < port <= 0xFFFF:
        raise ConfigError(
            f"zookeeper.connect={text!r}: {server!r} is no server; write HOST:PORT, several with commas between them"
        )
    return found["v6"] or found["name"], port

"""The client behind a request, as a group remembers it.

Rules.  * Addresses are written as Java writes them, because tools show them: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`.
"""

import ipaddress
from functools import lru_cache
from typing import Final

from semel.broker.context import RequestContext
from semel.core.groups.group import Caller

_ADDRESSES_REMEMBERED: Final = 1024


def caller_of(context: RequestContext) -> Caller:
    """The client that sent this request."""
    return Caller(context.client_id or "", java_address(context.identity.host), context.version)


@lru_cache(maxsize=_ADDRESSES_REMEMBERED)
def java_address(host: str) -> str:
    """An address as `InetAddress.toString` gives it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return f"/{host}"
    if isinstance(address, ipaddress.IPv6Address):
        return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
    return f"/{address}"

"""The settings of a member's links to other brokers, out of the broker's own."""

from typing import Final

from semel.broker.config import BrokerConfig
from semel.cluster.peers import PeerConfig

_RESPONSE_BYTES_MAX: Final = 16 << 20
"""Some bytes for each partition that was asked about."""
_SETUP_KEY: Final = "socket.connection.setup.timeout.ms"


def peer_config(config: BrokerConfig, client_id: str) -> PeerConfig:
    """Links under this client id."""
    setup_ms = config.value(_SETUP_KEY)
    if not isinstance(setup_ms, int):
        raise TypeError(f"{_SETUP_KEY}={setup_ms!r} is not a number")
    return PeerConfig(
        client_id=client_id,
        request_timeout_ms=config.request_timeout_ms,
        socket_connection_setup_timeout_ms=setup_ms,
        response_max_bytes=_RESPONSE_BYTES_MAX,
    )

"""SaslHandshake: agree on a SASL mechanism.

API key 17. Versions 0-1, none of them flexible.
    1  tokens travel in SaslAuthenticate, not as bare frames
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int16, String, array


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], key=17, versions="0-1", flexible="none"):
    mechanism: String = ""


class SaslHandshakeResponse(Response, key=17, versions="0-1", flexible="none"):
    error_code: Int16 = 0
    mechanisms: list[String] = array()

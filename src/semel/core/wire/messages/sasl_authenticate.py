"""SaslAuthenticate: one step of a SASL exchange.

API key 36. Versions 0-2, flexible from 2.
    1  response +session_lifetime_ms
    2  flexible
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bytes, Int16, Int64, String, at


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = at("1+", 0, ignorable=True)

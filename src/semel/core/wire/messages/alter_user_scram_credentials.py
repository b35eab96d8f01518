"""AlterUserScramCredentials: set or remove SCRAM credentials.

API key 51. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bytes, Int8, Int16, Int32, String, Struct, array


class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], key=51, versions="0", flexible="0+"
):
    deletions: list[ScramCredentialDeletion] = array()
    upsertions: list[ScramCredentialUpsertion] = array()


class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = array()

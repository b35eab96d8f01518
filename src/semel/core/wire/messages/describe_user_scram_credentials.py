"""DescribeUserScramCredentials: which SCRAM credentials users have.

API key 50. Version 0, flexible from 0.
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Int8, Int16, Int32, String, Struct, array


class UserName(Struct):
    name: String = ""


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], key=50, versions="0", flexible="0+"
):
    users: list[UserName] | None = array()


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = array()


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = array()

"""ApiVersions: the APIs, versions and features of a broker. `core.wire.api_versions` builds the answer.

API key 18. Versions 0-4, flexible from 3.
    1  response +throttle_time_ms
    2  throttled clients delay themselves
    3  request +client_software_name, +client_software_version; response +supported_features,
       +finalized_features_epoch, +finalized_features, +zk_migration_ready; flexible
    4  features that may be at level 0 are listed too
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, array, at


class ApiVersionsRequest(Request["ApiVersionsResponse"], key=18, versions="0-4", flexible="3+"):
    client_software_name: String = at("3+", "", ignorable=True)
    client_software_version: String = at("3+", "", ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: Int32 = at("1+", 0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array("3+", tag=0, ignorable=True)
    finalized_features_epoch: Int64 = at("3+", -1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array("3+", tag=2, ignorable=True)
    zk_migration_ready: Bool = at("3+", False, tag=3, ignorable=True)

"""UpdateFeatures: move finalized feature levels.

API key 57. Versions 0-2, flexible from 0.
    1  request -allow_downgrade, +upgrade_type, +validate_only
    2  response -results
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int8, Int16, Int32, String, Struct, array, at


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = at("0", False)
    upgrade_type: Int8 = at("1+", 1)


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], key=57, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = array()
    validate_only: Bool = at("1+", False)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[UpdatableFeatureResult] = array("0-1", ignorable=True)

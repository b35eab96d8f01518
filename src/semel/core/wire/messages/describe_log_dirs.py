"""DescribeLogDirs: what a broker's data directories hold.

API key 35. Versions 1-5, flexible from 2.
    2  flexible
    3  response +error_code
    4  response +total_bytes, +usable_bytes
    5  response +is_cordoned
"""

from semel.core.wire.message import Request, Response
from semel.core.wire.schema import Bool, Int16, Int32, Int64, String, Struct, array, at


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array()


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: list[DescribeLogDirsPartition] = array()


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: list[DescribeLogDirsTopic] = array()
    total_bytes: Int64 = at("4+", -1, ignorable=True)
    usable_bytes: Int64 = at("4+", -1, ignorable=True)
    is_cordoned: Bool = at("5+", False, ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("3+", 0, ignorable=True)
    results: list[DescribeLogDirsResult] = array()

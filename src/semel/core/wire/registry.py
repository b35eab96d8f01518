"""Every API with messages: its key, versions, headers and message classes.

Role.   The single table from an API key to the facts a connection needs before it decodes the message.
Flow.   `framing` asks it for header versions, `api_versions` for what to advertise, the broker's dispatch and the
        client for classes. A file of `messages/` is imported when its API is first asked for.
Rules.  * The table repeats the versions declared in `messages/`, so that they can be advertised without imports; a test
          compares the two.
        * Advertised is not the same as served: Produce 0-2 is advertised and refused, because old librdkafka otherwise
          silently drops compression (KAFKA-18659); InitProducerId 6 is served where two-phase commit is switched on,
          and advertised only there.
        * `CLUSTER_APIS` are spoken between the members of a cluster under ZooKeeper, with the versions of Kafka 3.9. A broker
          alone does not serve them.
"""

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from semel.core.wire.message import Message, Request, Response
from semel.errors import InvariantError, UnsupportedVersionError

NEVER_FLEXIBLE: Final = 0x7FFF
REQUEST_HEADER: Final = 1  # With a client id.
REQUEST_HEADER_FLEXIBLE: Final = 2  # And tagged fields.
RESPONSE_HEADER: Final = 0
RESPONSE_HEADER_FLEXIBLE: Final = 1


class ApiKey(IntEnum):
    """Kafka's numbers of the APIs with messages."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


class Api(NamedTuple):
    """One API. The versions are those with a table, the newest ones possibly unstable."""

    key: ApiKey
    name: str
    first: int
    last: int
    flexible_since: int
    advertised_first: int = -1  # -1: as `first`.
    unstable: int = 0  # Number of newest versions that are advertised only on demand.

    def advertised(self, *, unstable: bool = False) -> tuple[int, int]:
        """The range ApiVersions shows."""
        first = self.first if self.advertised_first < 0 else self.advertised_first
        return first, self.last - (0 if unstable else self.unstable)

    def serves(self, version: int) -> bool:
        """Whether there is a table for this version."""
        return self.first <= version <= self.last

    def request_header(self, version: int) -> int:
        return REQUEST_HEADER_FLEXIBLE if version >= self.flexible_since else REQUEST_HEADER

    def response_header(self, version: int) -> int:
        """The version of the response header. ApiVersions always has a plain one, because the client does not know the
        broker's versions yet."""
        if self.key is ApiKey.API_VERSIONS or version < self.flexible_since:
            return RESPONSE_HEADER
        return RESPONSE_HEADER_FLEXIBLE

    @property
    def request(self) -> type[Request[Response]]:
        """The class of its requests."""
        found = _message(self.key, "Request")
        if not issubclass(found, Request):
            raise InvariantError(f"{found.__name__} is not a request")
        return found

    @property
    def response(self) -> type[Response]:
        """The class of its responses."""
        found = _message(self.key, "Response")
        if not issubclass(found, Response):
            raise InvariantError(f"{found.__name__} is not a response")
        return found


APIS: Final = (
    Api(ApiKey.PRODUCE, "Produce", 3, 13, 9, advertised_first=0),
    Api(ApiKey.FETCH, "Fetch", 4, 18, 12),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6),
    Api(ApiKey.METADATA, "Metadata", 0, 13, 9),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, NEVER_FLEXIBLE),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2, unstable=1),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    Api(ApiKey.END_TXN, "EndTxn", 0, 5, 3),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, NEVER_FLEXIBLE),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
)
CLUSTER_APIS: Final = (
    Api(ApiKey.LEADER_AND_ISR, "LeaderAndIsr", 0, 7, 4),
    Api(ApiKey.STOP_REPLICA, "StopReplica", 0, 4, 2),
    Api(ApiKey.UPDATE_METADATA, "UpdateMetadata", 0, 8, 6),
    Api(ApiKey.CONTROLLED_SHUTDOWN, "ControlledShutdown", 0, 3, 3),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 0, 3, 0),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, 0),
)
BY_KEY: Final[dict[int, Api]] = {api.key: api for api in (*APIS, *CLUSTER_APIS)}


def api(key: int) -> Api:
    """The API of a key; raises `UnsupportedVersionError` for an unknown key."""
    found = BY_KEY.get(key)
    if found is None:
        raise UnsupportedVersionError(
            f"API key {key} is unknown; known are {', '.join(map(str, sorted(BY_KEY)))}"
        )
    return found


@cache
def _message(key: ApiKey, suffix: str) -> type[Message]:
    module = import_module(f"semel.core.wire.messages.{key.name.lower()}")
    found: type[Message] = getattr(module, BY_KEY[key].name + suffix)
    return found

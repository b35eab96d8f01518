"""The settings of a broker: Kafka's names, types, defaults and bounds, and which may change while it runs.

Role.   The tables, put together from their parts, and the questions about a setting: its key, its synonyms, and whether it
        changes while the broker runs.
Rules.  * Facts of Apache Kafka 4.3.1. A test compares them with its classes and lists the defaults that are ours: for settings
          Kafka demands, for listeners and for directories.
        * A setting with a sentence of documentation is one Semel acts on; the others are checked, kept and described, and
          change nothing yet.
        * A listener's own settings carry its name in front: `listener.name.internal.ssl.keystore.location`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from semel.core.metadata.broker_configs_cluster import CLUSTER
from semel.core.metadata.broker_configs_coordinators import COORDINATORS
from semel.core.metadata.broker_configs_older import OLDER
from semel.core.metadata.broker_configs_security import SECURITY
from semel.core.metadata.broker_configs_storage import STORAGE
from semel.core.metadata.config_types import CLUSTER_WIDE, LONG, MEDIUM, ConfigKey, Range, Update

_LONG_MAX: Final = str(2**63 - 1)
# Can be set while running and nowhere else; Kafka lists them only where they are set.
_QUOTAS: Final = (
    ConfigKey("leader.replication.throttled.rate", LONG, _LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE),
    ConfigKey("follower.replication.throttled.rate", LONG, _LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE),
    ConfigKey(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG, _LONG_MAX, Range(0), MEDIUM, CLUSTER_WIDE
    ),
)
_SERVED: Final[Mapping[str, str]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": "For how long at most that is tried.",
    "add.partitions.to.txn.retry.backoff.ms": "How soon a partition that may not join a transaction yet is tried again.",
    "advertised.listeners": "Where clients are told to connect, if it differs from where the broker listens.",
    "auto.create.topics.enable": "Whether a topic nobody created is made when a client asks for it.",
    "auto.leader.rebalance.enable": "Whether the controller moves leaders back to preferred replicas from time to time.",
    "broker.id": "The older name of node.id.",
    "broker.id.generation.enable": "Whether a member of a cluster under ZooKeeper without an id takes the next one there is.",
    "broker.rack": "Where the broker stands: replicas are spread over racks.",
    "compression.gzip.level": "How hard gzip works where the broker compresses.",
    "compression.lz4.level": "How hard lz4 works where the broker compresses.",
    "compression.type": "The codec batches are stored in; 'producer' keeps the one they came with.",
    "compression.zstd.level": "How hard zstd works where the broker compresses.",
    "connections.max.idle.ms": "A connection without a request for so long is closed.",
    "controlled.shutdown.enable": "Whether a broker of a cluster that stops has the controller move what it leads.",
    "controlled.shutdown.max.retries": "How often it asks for that.",
    "controlled.shutdown.retry.backoff.ms": "The pause between two times.",
    "controller.listener.names": "Listeners of a controller in a file for both: they are passed over.",
    "controller.socket.timeout.ms": "How long an answer of the controller is waited for.",
    "default.replication.factor": "Copies of a topic that is created without a number.",
    "delete.topic.enable": "Whether topics may be deleted.",
    "fetch.max.bytes": "The most records one fetch answer carries; its first batch always fits.",
    "group.consumer.assignment.interval.ms": "How long a group's assignment stays at least before a new one is made.",
    "group.consumer.assignors": "How partitions may be assigned by the broker, the first one if members name none.",
    "group.consumer.heartbeat.interval.ms": "How often members of a group of the consumer protocol send a heartbeat.",
    "group.consumer.max.assignment.interval.ms": "The longest assignment interval a group may be given for itself.",
    "group.consumer.max.heartbeat.interval.ms": "The longest heartbeat interval a group may be given for itself.",
    "group.consumer.max.session.timeout.ms": "The longest session timeout a group may be given for itself.",
    "group.consumer.max.size": "The most members of a group of the consumer protocol.",
    "group.consumer.migration.policy": "Whether groups change between the classic and the consumer protocol while members live on.",
    "group.consumer.min.assignment.interval.ms": "The shortest assignment interval a group may be given for itself.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest heartbeat interval a group may be given for itself.",
    "group.consumer.min.session.timeout.ms": "The shortest session timeout a group may be given for itself.",
    "group.consumer.regex.refresh.interval.ms": "How often topics are matched again with the pattern of a subscription.",
    "group.consumer.session.timeout.ms": "A member of the consumer protocol without a heartbeat for so long is removed.",
    "group.initial.rebalance.delay.ms": "How long the first rebalance of an empty group waits for more members.",
    "group.max.session.timeout.ms": "The longest session timeout a member may ask for.",
    "group.max.size": "The most members of a classic group.",
    "group.min.session.timeout.ms": "The shortest session timeout a member may ask for.",
    "inter.broker.listener.name": "The listener through which brokers call each other; the only one there is.",
    "leader.imbalance.check.interval.seconds": "How often the controller looks at the balance of leaders.",
    "leader.imbalance.per.broker.percentage": "How much of what prefers a broker others may lead, in percent.",
    "listener.security.protocol.map": "The security protocol of each listener's name; PLAINTEXT is served.",
    "listeners": "Where the broker listens, as PROTOCOL://HOST:PORT; port 0 picks a free one.",
    "log.cleaner.backoff.ms": "How long the cleaner sleeps when there is nothing to compact.",
    "log.cleaner.dedupe.buffer.size": "The memory all cleaner threads have for the keys of what they compact.",
    "log.cleaner.delete.retention.ms": "How long tombstones and markers stay after the cleaning that could have removed them.",
    "log.cleaner.enable": "Whether compacted topics are compacted.",
    "log.cleaner.io.buffer.load.factor": "How full the cleaner's memory for keys may get.",
    "log.cleaner.io.buffer.size": "The memory all cleaner threads have for reading and writing.",
    "log.cleaner.io.max.bytes.per.second": "The most the cleaner reads and writes.",
    "log.cleaner.max.compaction.lag.ms": "A record is compacted at the latest after so long.",
    "log.cleaner.min.cleanable.ratio": "A log is compacted when so much of it is not.",
    "log.cleaner.min.compaction.lag.ms": "A record is not compacted before it is so old.",
    "log.cleaner.threads": "How many logs are compacted at a time.",
    "log.cleanup.policy": "What becomes of old segments: deleted by age and size, compacted by key, or both.",
    "log.dir": "The directory of the broker's data, where log.dirs is not set.",
    "log.dirs": "The directory of the broker's data.",
    "log.flush.interval.messages": "A sync at the latest after so many records; 1 acknowledges only what is on disk.",
    "log.flush.interval.ms": "A sync at the latest after so long.",
    "log.flush.offset.checkpoint.interval.ms": "How often it is noted up to where logs need no recovery.",
    "log.flush.scheduler.interval.ms": "A sync at the latest after so long, where log.flush.interval.ms is not set.",
    "log.index.interval.bytes": "About one index entry per so many bytes of log.",
    "log.index.size.max.bytes": "A segment is closed when one of its indexes reaches this.",
    "log.message.timestamp.after.max.ms": "How far a record's timestamp may lie ahead of the broker's clock.",
    "log.message.timestamp.before.max.ms": "How far a record's timestamp may lie behind the broker's clock.",
    "log.message.timestamp.type": "Whether the producer's timestamps stay or the broker's clock replaces them.",
    "log.retention.bytes": "The oldest segments of a partition beyond this size are deleted; -1 keeps them.",
    "log.retention.check.interval.ms": "How often logs are looked at for segments to delete.",
    "log.retention.hours": "Hours after which segments are deleted, where no finer setting is.",
    "log.retention.minutes": "Minutes after which segments are deleted; wins over the hours.",
    "log.retention.ms": "Milliseconds after which segments are deleted; wins over minutes and hours; -1 keeps them.",
    "log.roll.hours": "A segment whose records span more hours than this is closed at the next append.",
    "log.roll.jitter.hours": "Hours by which a segment may be closed earlier, so that not all are at once.",
    "log.roll.jitter.ms": "Milliseconds by which a segment may be closed earlier; wins over the hours.",
    "log.roll.ms": "A segment whose records span more milliseconds than this is closed; wins over the hours.",
    "log.segment.bytes": "A segment never grows beyond this.",
    "log.segment.delete.delay.ms": "How long a deleted segment's files stay on disk under another name.",
    "max.connections": "Connections beyond this are closed at once.",
    "max.connections.per.ip": "Connections of one address beyond this are closed at once.",
    "max.connections.per.ip.overrides": "Addresses with another such limit, as ADDRESS:COUNT with commas between.",
    "max.incremental.fetch.session.cache.slots": "How many incremental fetch sessions are kept.",
    "max.request.partition.size.limit": "The most partitions one DescribeTopicPartitions answer carries.",
    "message.max.bytes": "The largest batch that may be appended, after compression.",
    "min.insync.replicas": "With fewer replicas in sync, acks=all is refused; a broker alone has one.",
    "node.id": "The broker's number.",
    "num.partitions": "Partitions of a topic that is created without a number.",
    "num.replica.fetchers": "How many requests to each leader are under way at a time, for the partitions that are followed.",
    "offset.metadata.max.bytes": "The longest text a client may store with a committed offset.",
    "offsets.retention.check.interval.ms": "How often groups are looked at for offsets to forget.",
    "offsets.retention.minutes": "Committed offsets are kept for so long after their group became empty or stopped reading the topic.",
    "offsets.topic.compression.codec": "The codec committed offsets are stored in: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "Partitions of the topic of committed offsets, when it is made.",
    "offsets.topic.replication.factor": "Replicas of the topic of committed offsets, when a cluster makes it.",
    "offsets.topic.segment.bytes": "The size of its segments.",
    "process.roles": "What the process is: a broker, among whatever else is named.",
    "producer.id.expiration.check.interval.ms": "How often producers are looked at for ones to forget.",
    "producer.id.expiration.ms": "A producer silent for longer is forgotten.",
    "replica.fetch.backoff.ms": "The pause before a partition is asked for again after an error.",
    "replica.fetch.max.bytes": "The most bytes of a partition in one answer of its leader; a first batch is sent whole.",
    "replica.fetch.min.bytes": "How much there must be before a leader answers.",
    "replica.fetch.response.max.bytes": "The most bytes in one answer of a leader.",
    "replica.fetch.wait.max.ms": "How long a leader waits for that.",
    "replica.lag.time.max.ms": "A follower that has not had everything for so long leaves the ISR.",
    "replica.socket.timeout.ms": "How long an answer of a leader is waited for.",
    "reserved.broker.max.id": "Ids up to this one are given by hand; those that ZooKeeper gives are above.",
    "semel.controller.eligible": "Whether this broker stands for election as the controller of its cluster.",
    "semel.zookeeper.digest": "USER:PASSWORD by which this broker logs in to ZooKeeper, for nodes whose access lists ask for it.",
    "socket.connection.setup.timeout.ms": "How long a connection to another broker may take.",
    "socket.listen.backlog.size": "How many connections the system keeps until the broker accepts them.",
    "socket.receive.buffer.bytes": "The receive buffer of a connection; the system tunes it where this is not set.",
    "socket.request.max.bytes": "A longer request closes its connection.",
    "socket.send.buffer.bytes": "The send buffer of a connection; the system tunes it where this is not set.",
    "transaction.max.timeout.ms": "The longest timeout a transaction may ask for.",
    "transaction.partition.verification.enable": "Whether a write must belong to an open transaction before it is appended.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often transactional ids are looked at for ones to forget.",
    "transaction.state.log.min.isr": "min.insync.replicas of the topic transactions are kept in, when a cluster makes it.",
    "transaction.state.log.num.partitions": "Partitions of the topic transactions are kept in.",
    "transaction.state.log.replication.factor": "Replicas of the topic transactions are kept in, when a cluster makes it.",
    "transaction.state.log.segment.bytes": "The size of a segment of the topic transactions are kept in.",
    "transaction.two.phase.commit.enable": "Whether transactions may be prepared now and ended by anyone later.",
    "transactional.id.expiration.ms": "A transactional id without a transaction for so long is forgotten.",
    "unclean.leader.election.enable": "Whether the controller elects a replica that is not in sync where no other is left.",
    "zookeeper.connect": "The cluster's ZooKeeper, as HOST:PORT with commas between, and one /CHROOT behind the last.",
    "zookeeper.connection.timeout.ms": "How long a start waits for ZooKeeper; as long as its session lives where this is not set.",
    "zookeeper.max.in.flight.requests": "How many requests to ZooKeeper are under way at a time.",
    "zookeeper.session.timeout.ms": "ZooKeeper takes a broker for dead that was silent for so long.",
}
LISTENER_ONLY: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""While a broker runs these change for one listener only, under its name."""
# Kafka opens and closes listeners while it runs; here they hold until the next start.
_FIXED: Final = frozenset({"listeners", "listener.security.protocol.map"})
_FALLBACKS: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")


def _documented(rows: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    return {
        row.name: replace(row, documentation=_SERVED[row.name]) if row.name in _SERVED else row
        for row in rows
    }


BROKER_CONFIGS: Final[Mapping[str, ConfigKey]] = _documented(CLUSTER + COORDINATORS + SECURITY + STORAGE)
"""Every setting of Kafka 4.3's broker."""
UNLISTED_CONFIGS: Final[Mapping[str, ConfigKey]] = _documented(OLDER + _QUOTAS)
"""Settings that are described only where they are set."""


def broker_key(name: str) -> ConfigKey | None:
    """The setting of this name, a listener's own included; None if there is no such setting."""
    found = BROKER_CONFIGS.get(name) or UNLISTED_CONFIGS.get(name)
    if found is None and (prefixed := _LISTENER.fullmatch(name)) is not None:
        base = BROKER_CONFIGS.get(prefixed[1]) or BROKER_CONFIGS.get(prefixed[1].partition(".")[2])
        found = None if base is None else replace(base, name=name)
    return found


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The settings that say the same as this one, strongest first; itself among them."""
    for names in _FALLBACKS:
        if name in names:
            return names
    if name == "log.flush.interval.ms":
        return name, "log.flush.scheduler.interval.ms"
    if (prefixed := _LISTENER.fullmatch(name)) is not None:
        base = prefixed[1] if prefixed[1] in BROKER_CONFIGS else prefixed[1].partition(".")[2]
        return name, base
    return (name,)


def without_effect(names: Iterable[str]) -> list[str]:
    """The named settings of a broker that Semel does not act on, by name."""
    keys = ((name, broker_key(name)) for name in sorted(names))
    return [name for name, key in keys if key is not None and key.documentation is None]


def changes_while_running(key: ConfigKey) -> bool:
    """Whether a broker takes a new value of this setting without a new start."""
    return key.update is not Update.READ_ONLY and key.name not in _FIXED

"""Settings of a broker that Kafka 3.9 still had and 4 dropped: ZooKeeper's, and what an old file may carry.

Role.   Rows of the table in `broker_configs`, apart because Kafka 4.3 does not know them: accepted, and described only
        where they were set. ZooKeeper's are Semel's own again, for its cluster.
"""

from typing import Final

from semel.core.metadata.config_types import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    Range,
)

OLDER: Final = (
    ConfigKey("alter.config.policy.kraft.compatibility.enable", BOOLEAN, "false", None, LOW),
    ConfigKey("auto.include.jmx.reporter", BOOLEAN, "true", None, LOW),
    ConfigKey("broker.id.generation.enable", BOOLEAN, "true", None, MEDIUM),
    ConfigKey("control.plane.listener.name", STRING, None, None, HIGH),
    ConfigKey("controlled.shutdown.max.retries", INT, "3", None, MEDIUM),
    ConfigKey("controlled.shutdown.retry.backoff.ms", LONG, "5000", None, MEDIUM),
    ConfigKey("delegation.token.master.key", PASSWORD, None, None, MEDIUM),
    ConfigKey("eligible.leader.replicas.enable", BOOLEAN, "false", None, HIGH),
    ConfigKey("inter.broker.protocol.version", STRING, "3.9-IV0", None, MEDIUM),
    ConfigKey("leader.imbalance.per.broker.percentage", INT, "10", None, HIGH),
    ConfigKey("log.message.downconversion.enable", BOOLEAN, "true", None, LOW),
    ConfigKey("log.message.format.version", STRING, "3.0-IV1", None, MEDIUM),
    ConfigKey("log.message.timestamp.difference.max.ms", LONG, "9223372036854775807", Range(0), MEDIUM),
    ConfigKey("offsets.commit.required.acks", SHORT, "-1", None, HIGH),
    ConfigKey("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", None, LOW),
    ConfigKey("password.encoder.iterations", INT, "4096", Range(1024), LOW),
    ConfigKey("password.encoder.key.length", INT, "128", Range(8), LOW),
    ConfigKey("password.encoder.keyfactory.algorithm", STRING, None, None, LOW),
    ConfigKey("password.encoder.old.secret", PASSWORD, None, None, MEDIUM),
    ConfigKey("password.encoder.secret", PASSWORD, None, None, MEDIUM),
    ConfigKey("reserved.broker.max.id", INT, "1000", Range(0), MEDIUM),
    ConfigKey("semel.controller.eligible", BOOLEAN, "false", None, MEDIUM),
    ConfigKey("semel.zookeeper.digest", PASSWORD, None, None, MEDIUM),
    ConfigKey("zookeeper.clientCnxnSocket", STRING, None, None, MEDIUM),
    ConfigKey("zookeeper.connect", STRING, None, None, HIGH),
    ConfigKey("zookeeper.connection.timeout.ms", INT, None, None, HIGH),
    ConfigKey("zookeeper.max.in.flight.requests", INT, "10", Range(1), HIGH),
    ConfigKey("zookeeper.metadata.migration.enable", BOOLEAN, "false", None, HIGH),
    ConfigKey("zookeeper.session.timeout.ms", INT, "18000", None, HIGH),
    ConfigKey("zookeeper.set.acl", BOOLEAN, "false", None, HIGH),
    ConfigKey("zookeeper.ssl.cipher.suites", LIST, None, None, LOW),
    ConfigKey("zookeeper.ssl.client.enable", BOOLEAN, "false", None, MEDIUM),
    ConfigKey("zookeeper.ssl.crl.enable", BOOLEAN, "false", None, LOW),
    ConfigKey("zookeeper.ssl.enabled.protocols", LIST, None, None, LOW),
    ConfigKey("zookeeper.ssl.endpoint.identification.algorithm", STRING, "HTTPS", None, LOW),
    ConfigKey("zookeeper.ssl.keystore.location", STRING, None, None, MEDIUM),
    ConfigKey("zookeeper.ssl.keystore.password", PASSWORD, None, None, MEDIUM),
    ConfigKey("zookeeper.ssl.keystore.type", STRING, None, None, MEDIUM),
    ConfigKey("zookeeper.ssl.ocsp.enable", BOOLEAN, "false", None, LOW),
    ConfigKey("zookeeper.ssl.protocol", STRING, "TLSv1.2", None, LOW),
    ConfigKey("zookeeper.ssl.truststore.location", STRING, None, None, MEDIUM),
    ConfigKey("zookeeper.ssl.truststore.password", PASSWORD, None, None, MEDIUM),
    ConfigKey("zookeeper.ssl.truststore.type", STRING, None, None, MEDIUM),
)

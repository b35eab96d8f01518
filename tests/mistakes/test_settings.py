"""Mistakes in settings: names, values, combinations, and the wrong client's.

Method: a table; every row is one constructor's call, refused before a connection is opened.
"""

from semel import Admin, Consumer, Producer
from semel.client.settings import SettingsTypeError
from semel.exceptions import ConfigException, InvalidGroupIdException
from support.client.mistakes_kit import Mistake, World, judge, rows

REFUSED = ConfigException


@rows(
    Mistake("producer: no broker", lambda w: Producer(), REFUSED, ('"bootstrap.servers"',), "as localhost:9092"),
    Mistake("consumer: no broker", lambda w: Consumer(), REFUSED, ('"bootstrap.servers"',), "as localhost:9092"),
    Mistake("admin: no broker", lambda w: Admin(), REFUSED, ('"bootstrap.servers"',), "as localhost:9092"),
    Mistake("an empty address", lambda w: Producer(bootstrap_servers=""), REFUSED, ('"bootstrap.servers"',), "as localhost:9092"),
    Mistake("an address without a port", lambda w: Producer(bootstrap_servers="localhost"), REFUSED, ("'localhost'",), "use HOST:PORT"),
    Mistake("a port in letters", lambda w: Consumer(bootstrap_servers="localhost:kafka"), REFUSED, ("'localhost:kafka'",), "use HOST:PORT"),
    Mistake("a port that is none", lambda w: Admin(bootstrap_servers="localhost:99999"), REFUSED, ("'localhost:99999'",), "use HOST:PORT"),
    Mistake("a URL", lambda w: Producer(bootstrap_servers="http://localhost:9092"), REFUSED, ("'http://localhost:9092'",), "use HOST:PORT"),
    Mistake("a number for an address", lambda w: Producer(bootstrap_servers=9092), REFUSED, ("'9092'",), "use HOST:PORT"),
    Mistake("text in place of settings", lambda w: Producer("localhost:9092"), SettingsTypeError, ("Producer('localhost:9092')", "not a str"), 'Write Producer({"bootstrap.servers": "localhost:9092"})'),  # type: ignore[arg-type]
    Mistake("a misspelled keyword", lambda w: w.producer(compresion_type="gzip"), REFUSED, ("compresion_type",), "did you mean compression.type?"),
    Mistake("a misspelled key", lambda w: Producer({"bootstrap.servers": w.bootstrap, "aks": "all"}), REFUSED, ("aks",), "did you mean acks?"),
    Mistake("a misspelled key of a consumer", lambda w: w.consumer(auto_ofset_reset="earliest"), REFUSED, ("auto_ofset_reset",), "did you mean auto.offset.reset?"),
    Mistake("another library's keyword", lambda w: w.producer(partitioner="random"), REFUSED, ("partitioner",), "did you mean partitioner.class?"),
    Mistake("another library's file of authorities", lambda w: w.producer(ssl_cafile="ca.pem"), REFUSED, ("ssl_cafile",), "ssl.truststore.location"),
    Mistake("a consumer's setting for a producer", lambda w: w.producer(group_id="g"), REFUSED, ("group_id", "of a consumer, not of a producer"), "leave it out"),
    Mistake("a consumer's function for a producer", lambda w: w.producer(value_deserializer=str), REFUSED, ("value_deserializer", "of a consumer"), "leave it out"),
    Mistake("a producer's setting for a consumer", lambda w: w.consumer(acks="all"), REFUSED, ("acks", "of a producer, not of a consumer"), "leave it out"),
    Mistake("a consumer's setting for an admin", lambda w: w.admin(group_id="g"), REFUSED, ("group_id", "of a consumer, not of an admin client"), "leave it out"),
    Mistake("acks=2", lambda w: w.producer(acks="2"), REFUSED, ("2", "acks"), "one of: all, -1, 0, 1"),
    Mistake("one acknowledgement, exactly once", lambda w: w.producer(acks=1, enable_idempotence=True), REFUSED, ("idempotent",), "set acks to all"),
    Mistake("six in flight, exactly once", lambda w: w.producer(max_in_flight_requests_per_connection=6, enable_idempotence=True), REFUSED, ("max.in.flight.requests.per.connection",), "at most 5"),
    Mistake("none in flight", lambda w: w.producer(max_in_flight_requests_per_connection=0), REFUSED, ("0", "max.in.flight.requests.per.connection"), "at least 1"),
    Mistake("transactions without idempotence", lambda w: w.producer(transactional_id="t", enable_idempotence=False), REFUSED, ("transactional.id",), "enabling idempotence"),
    Mistake("an empty transactional id", lambda w: w.producer(transactional_id=""), REFUSED, ("transactional.id",), "non-empty"),
    Mistake("a time in words", lambda w: w.producer(linger_ms="soon"), REFUSED, ("soon", "linger.ms"), "a number"),
    Mistake("a negative time", lambda w: w.producer(linger_ms=-1), REFUSED, ("-1", "linger.ms"), "at least 0"),
    Mistake("a negative size", lambda w: w.producer(batch_size=-5), REFUSED, ("-5", "batch.size"), "at least 0"),
    Mistake("an unknown codec", lambda w: w.producer(compression_type="zip"), REFUSED, ("zip", "compression.type"), "none, gzip, snappy, lz4, zstd"),
    Mistake("less time than a request has", lambda w: w.producer(delivery_timeout_ms=10, request_timeout_ms=1000), REFUSED, ("delivery.timeout.ms", "request.timeout.ms"), "raise 10 to 1005 at least"),
    Mistake("perhaps true", lambda w: w.producer(enable_idempotence="maybe"), REFUSED, ("maybe", "enable.idempotence"), "either true or false"),
    Mistake("a serializer by an unknown name", lambda w: w.producer(value_serializer="json"), REFUSED, ("value.serializer=json",), "use a callable"),
    Mistake("a deserializer that is a number", lambda w: w.consumer(value_deserializer=42), REFUSED, ("value.deserializer=42",), "use a callable"),
    Mistake("an unknown protocol", lambda w: w.producer(security_protocol="SSLX"), REFUSED, ("SSLX", "security.protocol"), "SASL_SSL"),
    Mistake("an unknown mechanism", lambda w: w.producer(security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPIX"), REFUSED, ("sasl.mechanism=GSSAPIX",), "use PLAIN"),
    Mistake("a login without a name", lambda w: w.producer(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"), REFUSED, ("sasl.mechanism=PLAIN",), "set sasl.username and sasl.password"),
    Mistake("a file that is not there", lambda w: w.producer(security_protocol="SSL", ssl_truststore_location="/nope.jks"), REFUSED, ("ssl.truststore.location=/nope.jks",), "cannot be read"),
    Mistake("an unknown reset", lambda w: w.consumer(auto_offset_reset="first"), REFUSED, ("first", "auto.offset.reset"), "'earliest', 'latest'"),
    Mistake("a misspelled isolation", lambda w: w.consumer(isolation_level="commited"), REFUSED, ("commited", "isolation.level"), "read_committed"),
    Mistake("a size in words", lambda w: w.consumer(fetch_min_bytes="many"), REFUSED, ("many", "fetch.min.bytes"), "a number"),
    Mistake("a session shorter than a heartbeat", lambda w: w.consumer(group_id="g", session_timeout_ms=1000, heartbeat_interval_ms=2000), REFUSED, ("heartbeat.interval.ms=2000",), "lower than session.timeout.ms=1000"),
    Mistake("an unknown group protocol", lambda w: w.consumer(group_id="g", group_protocol="new"), REFUSED, ("new", "group.protocol"), "CONSUMER, CLASSIC"),
    Mistake("an unknown strategy", lambda w: w.consumer(group_id="g", partition_assignment_strategy="fair"), REFUSED, ("partition.assignment.strategy=fair",), "use range"),
    Mistake("a poll of no records", lambda w: w.consumer(max_poll_records=0), REFUSED, ("0", "max.poll.records"), "at least 1"),
    Mistake("an empty group", lambda w: w.consumer(group_id="").subscribe(["orders"]), InvalidGroupIdException, ("group.id",), "not be an empty string"),
    Mistake("an admin's time in words", lambda w: w.admin(request_timeout_ms="soon"), REFUSED, ("soon", "request.timeout.ms"), "a number"),
)  # fmt: skip
def test_a_mistake_in_settings(mistake: Mistake, world: World) -> None:
    judge(mistake, world)

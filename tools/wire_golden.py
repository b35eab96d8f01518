"""Capture what Apache Kafka writes, for the golden tests of the wire codec.

Usage.  python tools/wire_golden.py messages|frames

Role.   `messages`: seeded random messages of every API and version, encoded by Kafka's own generated classes; those of
        clusters under ZooKeeper by the classes of Kafka 3.9.2.
        `frames`: real requests and responses, recorded between Kafka's tools, aiokafka, kafka-python and a Kafka broker.
        Both write below tests/core/wire/golden/ and are run once per Kafka release, not by the tests.
"""

import asyncio
import contextlib
import gzip
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from semel.core.wire import registry  # noqa: E402
from semel.core.wire.framing import FrameReader, read_request_header  # noqa: E402
from semel.core.wire.kafka_json import kafka_json  # noqa: E402
from semel.core.wire.message import Message  # noqa: E402
from semel.peers import kafka as kafka_peer  # noqa: E402
from support.wire.wire_values import cluster_messages, every_version, kafka_4_messages, random_message  # noqa: E402  # the path is set above

GOLDEN = ROOT / "tests" / "core" / "wire" / "golden"
FRAMES_KEPT = 3
FRAME_MAX_BYTES = 3000
SEED = 431


def capture_messages(release: str, classes: list[type[Message]]) -> None:
    rng = random.Random(SEED)
    questions = []
    for cls, version in every_version(classes):
        for _ in range(2):
            message = random_message(rng, cls, version)
            questions.append((cls.__name__, version, json.dumps(kafka_json(message, version))))
    home = kafka_peer.find(release)
    oracle = str(ROOT / "tests" / "java" / "WireOracle.java")
    encoded = home.run(
        oracle, stdin="".join(f"json {n} {v} {text}\n" for n, v, text in questions)
    ).splitlines()
    read = home.run(
        oracle,
        stdin="".join(f"bytes {n} {v} {raw}\n" for (n, v, _), raw in zip(questions, encoded, strict=True)),
    ).splitlines()
    rows = []
    for (name, version, _), raw, answer in zip(questions, encoded, read, strict=True):
        again, _, text = answer.partition("\t")
        if raw != again:
            raise SystemExit(f"Kafka does not agree with itself on {name} v{version}: {raw} {answer}")
        rows.append({"message": name, "version": version, "bytes": raw, "json": json.loads(text)})
    _save(f"messages-{release}.jsonl.gz", rows)


class Recorder:
    """A TCP proxy that keeps a few frames of each API, version and direction."""

    def __init__(self, broker_port: int) -> None:
        self.broker_port = broker_port
        self.kept: dict[tuple[str, int, int], list[str]] = {}

    def keep(self, kind: str, key: int, version: int, frame: bytearray) -> None:
        frames = self.kept.setdefault((kind, key, version), [])
        text = bytes(frame).hex()
        if len(frames) < FRAMES_KEPT and len(frame) <= FRAME_MAX_BYTES and text not in frames:
            frames.append(text)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
        except OSError:
            writer.close()
            return
        waiting: deque[tuple[int, int, int]] = deque()

        def request(frame: bytearray) -> None:
            with contextlib.suppress(Exception):  # An API we have no messages for.
                header, _ = read_request_header(frame)
                if registry.api(header.api_key).serves(header.api_version):
                    self.keep("request", header.api_key, header.api_version, frame)
            key, version, correlation_id = struct.unpack_from(">hhi", frame)
            waiting.append((correlation_id, key, version))

        def response(frame: bytearray) -> None:
            (correlation_id,) = struct.unpack_from(">i", frame)
            while waiting:
                sent, key, version = waiting.popleft()
                if sent == correlation_id:
                    if key in registry.BY_KEY and registry.api(key).serves(version):
                        self.keep("response", key, version, frame)
                    return

        await asyncio.gather(
            self.pump(reader, upstream_writer, request),
            self.pump(upstream_reader, writer, response),
            return_exceptions=True,
        )

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen) -> None:  # type: ignore[no-untyped-def]  # a tool
        frames = FrameReader()
        try:
            while data := await reader.read(65536):
                for frame in frames.feed(data):
                    seen(frame)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


async def capture_frames() -> None:
    home = kafka_peer.find()
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        proxy_port = chosen.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        settings = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "unstable.api.versions.enable": "true",
            "transaction.two.phase.commit.enable": "true",
        }
        recorder = Recorder(0)
        server = await asyncio.start_server(recorder.serve, "127.0.0.1", proxy_port)
        broker = kafka_peer.KafkaBroker(home, Path(directory), settings=settings)
        starting = asyncio.to_thread(broker.start)
        task = asyncio.create_task(starting)
        while not broker.port:
            await asyncio.sleep(0.01)
        recorder.broker_port = broker.port
        await task
        try:
            bootstrap = f"127.0.0.1:{proxy_port}"
            for tool in _tools(bootstrap, Path(directory)):
                done = await asyncio.to_thread(
                    subprocess.run, home.java(*tool), capture_output=True, text=True, timeout=120, check=False
                )
                print("ok " if done.returncode == 0 else "NOT", " ".join(tool)[:110], file=sys.stderr)
                if done.returncode:
                    print((done.stdout + done.stderr)[-400:], file=sys.stderr)
            await _aiokafka(bootstrap)
            await asyncio.to_thread(_kafka_python, bootstrap)
            await _api_versions(proxy_port)
        finally:
            await asyncio.to_thread(broker.stop)
            server.close()
    rows = [
        {"kind": kind, "key": key, "version": version, "frame": frame}
        for (kind, key, version), frames in sorted(recorder.kept.items())
        for frame in frames
    ]
    _save("frames-4.3.1.jsonl.gz", rows)


def _tools(bootstrap: str, directory: Path) -> list[list[str]]:
    at = ["--bootstrap-server", bootstrap]
    t = "org.apache.kafka.tools."
    (directory / "delete.json").write_text(
        '{"partitions":[{"topic":"orders","partition":0,"offset":3}],"version":1}'
    )
    (directory / "move.json").write_text(
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    )
    produce = [
        t + "ProducerPerformance",
        "--num-records",
        "40",
        "--record-size",
        "30",
        "--throughput",
        "-1",
        *at,
    ]
    consume = [
        t + "ConsumerPerformance",
        *at,
        "--topic",
        "orders",
        "--num-records",
        "40",
        "--timeout",
        "4000",
    ]
    groups = [t + "consumer.group.ConsumerGroupCommand", *at]
    return [
        [t + "TopicCommand", *at, "--create", "--topic", "orders", "--partitions", "3", "--config", "retention.ms=99999999"],
        [t + "TopicCommand", *at, "--create", "--topic", "extra"],
        [t + "TopicCommand", *at, "--describe"],
        [t + "TopicCommand", *at, "--alter", "--topic", "extra", "--partitions", "4"],
        [*produce, "--topic", "orders"],
        [*produce, "--topic", "orders", "--transactional-id", "tx-1", "--transaction-duration-ms", "50"],
        [*consume, "--group", "classic"],
        [*consume, "--group", "modern", "--command-property", "group.protocol=consumer"],
        [*groups, "--list"],
        [*groups, "--describe", "--all-groups"],
        [*groups, "--describe", "--all-groups", "--members", "--verbose"],
        [*groups, "--group", "classic", "--reset-offsets", "--to-earliest", "--all-topics", "--execute"],
        [*groups, "--group", "classic", "--delete-offsets", "--topic", "orders"],
        [*groups, "--group", "classic", "--delete"],
        [t + "TransactionsCommand", *at, "list"],
        [t + "TransactionsCommand", *at, "describe", "--transactional-id", "tx-1"],
        [t + "TransactionsCommand", *at, "describe-producers", "--topic", "orders", "--partition", "0"],
        [t + "TransactionsCommand", *at, "find-hanging", "--broker-id", "1"],
        [t + "GetOffsetShell", *at, "--topic", "orders"],
        [t + "DeleteRecordsCommand", *at, "--offset-json-file", str(directory / "delete.json")],
        [t + "LogDirsCommand", *at, "--describe"],
        [t + "FeatureCommand", *at, "describe"],
        [t + "FeatureCommand", *at, "upgrade", "--feature", "share.version=1", "--dry-run"],
        [t + "LeaderElectionCommand", *at, "--election-type", "preferred", "--all-topic-partitions"],
        [t + "reassign.ReassignPartitionsCommand", *at, "--list"],
        [t + "reassign.ReassignPartitionsCommand", *at, "--execute", "--reassignment-json-file", str(directory / "move.json")],
        [t + "ClusterTool", "cluster-id", *at],
        [t + "ClusterTool", "list-endpoints", *at],
        ["kafka.admin.ConfigCommand", *at, "--alter", "--topic", "orders", "--add-config", "retention.ms=1000000"],
        ["kafka.admin.ConfigCommand", *at, "--describe", "--topic", "orders", "--all"],
        ["kafka.admin.ConfigCommand", *at, "--describe", "--entity-type", "client-metrics"],
        ["kafka.admin.ConfigCommand", *at, "--alter", "--add-config", "consumer_byte_rate=1024", "--user", "ann"],
        ["kafka.admin.ConfigCommand", *at, "--describe", "--user", "ann"],
        ["kafka.admin.ConfigCommand", *at, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096,password=p]", "--user", "ann"],
        ["kafka.admin.ConfigCommand", *at, "--describe", "--entity-type", "users"],
        [t + "AclCommand", *at, "--add", "--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders"],
        [t + "AclCommand", *at, "--list"],
        [t + "AclCommand", *at, "--remove", "--force", "--topic", "orders"],
        [t + "TopicCommand", *at, "--delete", "--topic", "extra"],
    ]  # fmt: skip


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async with (
        AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id="aio", enable_idempotence=True
        ) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait("orders", b"value", key=b"key")
        await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 7}, "aio-group")
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="aio-group", auto_offset_reset="earliest"
    ) as consumer:
        await asyncio.wait_for(consumer.getone(), 30)
        await consumer.commit()
    print("ok  aiokafka", file=sys.stderr)


def _kafka_python(bootstrap: str) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id="kp", enable_idempotence=True
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"value").get(30)
    producer.commit_transaction()
    producer.close()
    consumer = kafka.KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        group_id="kp-group",
        auto_offset_reset="earliest",
        consumer_timeout_ms=8000,
    )
    next(iter(consumer))
    consumer.commit()
    consumer.close()
    print("ok  kafka-python", file=sys.stderr)


async def _api_versions(port: int) -> None:
    """Every version of ApiVersions by hand, and one from the future."""
    for version in (0, 1, 2, 3, 4):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"\x06semel\x020\x00" if version >= 3 else b""
        header = struct.pack(">hhih1s", 18, version, 7, 1, b"g") + (b"\x00" if version >= 3 else b"")
        frame = header + body
        writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(size)
        writer.close()
    print("ok  ApiVersions", file=sys.stderr)


def _save(name: str, rows: list[dict[str, object]]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in rows)
    packed = gzip.compress(text.encode(), 9, mtime=0)
    (GOLDEN / name).write_bytes(packed)
    print(f"{name}: {len(rows)} rows, {len(packed)} bytes")


if __name__ == "__main__":
    if sys.argv[1:] == ["messages"]:
        capture_messages(kafka_peer.DEFAULT_VERSION, kafka_4_messages())
        capture_messages("3.9.2", cluster_messages())
    elif sys.argv[1:] == ["frames"]:
        asyncio.run(capture_frames())
    else:
        raise SystemExit(__doc__)

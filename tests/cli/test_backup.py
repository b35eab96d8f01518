"""A data directory is copied, and the copy has everything: of a broker that was stopped, and of one that was paused under load.

Method: real processes, and the commands of docs/backup.md. What a client was told is stored before the copy must be in it; of a
transaction all or nothing is.
"""

import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semel import Consumer, Producer
from semel.cluster.standalone import METADATA_CONFIG
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.records.build import RecordInput, build_batch
from semel.log.directory import LogDirectory
from semel.runtime.files import RealFiles
from semel.types import TopicPartition
from support.broker.broker_process import PATIENCE_SECONDS, BrokerProcess, command, running_broker

SETTINGS = ("-X", "num.partitions=2", "-X", "offsets.topic.num.partitions=2")


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    """Every committed record there is."""
    settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        partitions = [TopicPartition(topic, index) for index in range(2)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(partitions)
        found: list[bytes] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=1000)]
    return found


def verified(directory: Path) -> None:
    """`semel log verify` finds nothing wrong with any log in the copy."""
    logs = [str(one.parent) for one in directory.glob("*/*.log")]
    assert logs
    for log in {*logs}:
        done = subprocess.run(
            command("log", "verify", log),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)


def test_a_stopped_broker_is_copied_and_the_restored_one_leads_in_a_new_epoch(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", *SETTINGS) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            sent = [producer.send("orders", str(n).encode(), partition=n % 2) for n in range(100)]
            assert all(one.result() for one in sent)
        broker.stop()
        shutil.copytree(tmp_path / "data", tmp_path / "backup")
    with running_broker(
        tmp_path / "data", *SETTINGS
    ) as broker:  # Life goes on behind the backup, and is lost.
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"after", partition=0).result()
        broker.stop(signal.SIGKILL)
    shutil.rmtree(tmp_path / "data")
    verified(tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", tmp_path / "data")
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    with running_broker(tmp_path / "data", *SETTINGS) as broker:
        assert sorted(map(int, read_all(broker.bootstrap, "orders"))) == list(range(100))
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            assert producer.send("orders", b"other", partition=0).result().offset == 50
        broker.stop()
    epochs = (tmp_path / "data" / "orders-0" / "leader-epoch-checkpoint").read_text().split("\n")
    assert epochs[2:4] == ["0 0", "1 50"], "clients that read 'after' notice that it is gone"


def test_a_broker_is_paused_under_load_and_its_copy_has_all_or_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data", *SETTINGS) as broker:
        with transactions(broker) as committed:
            while len(committed) < 20:
                committed.wait()
            broker.process.send_signal(signal.SIGSTOP)
            told = len(committed)  # Of these the client knew before the copy.
            try:
                shutil.copytree(tmp_path / "data", tmp_path / "backup")
            finally:
                broker.process.send_signal(signal.SIGCONT)
            while len(committed) < told + 5:
                committed.wait()  # The pause cost the clients nothing but time.
        broker.stop()
    with running_broker(tmp_path / "backup", *SETTINGS) as restored:
        found = read_all(restored.bootstrap, "orders")
        restored.stop()
    verified(tmp_path / "backup")
    numbers = sorted({int(one) for one in found})
    assert len(found) == 2 * len(numbers), "of each transaction both records, once"
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= told


class Committed:
    """How many transactions the client was told are committed."""

    def __init__(self) -> None:
        self._count = 0
        self._more = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def add(self) -> None:
        with self._more:
            self._count += 1
            self._more.notify_all()

    def wait(self) -> None:
        """Until there is one more."""
        with self._more:
            before = self._count
            assert self._more.wait_for(lambda: self._count > before, PATIENCE_SECONDS)


@contextmanager
def transactions(broker: BrokerProcess) -> Iterator[Committed]:
    """A client that writes a record into both partitions in every transaction, one transaction behind the other."""
    committed, ending = Committed(), threading.Event()

    def work() -> None:
        with Producer(bootstrap_servers=broker.bootstrap, transactional_id="load") as producer:
            producer.init_transactions()
            while not ending.is_set():
                with producer.transaction():
                    for partition in range(2):
                        producer.send("orders", str(len(committed)).encode(), partition=partition)
                committed.add()

    client = threading.Thread(target=work)
    client.start()
    try:
        yield committed
    finally:
        ending.set()
        client.join(PATIENCE_SECONDS)
    assert not client.is_alive()


def test_what_a_later_version_wrote_is_refused_in_a_sentence_and_left_alone(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        broker.stop()
    directory = LogDirectory.open(RealFiles(), str(tmp_path), node_id=1, cluster_id="", directory_id="")
    log = directory.load(TopicPartition(METADATA_TOPIC, 0), METADATA_CONFIG, 0)
    log.append(build_batch([RecordInput(b"novelty/1", b'{"version":1}', 0)]), leader_epoch=0, now_ms=0)
    for close in directory.begin_close(0):
        close()
    directory.finish_close()
    before = {one: one.read_bytes() for one in tmp_path.glob("__cluster_metadata-0/*.log")}
    done = subprocess.run(
        command("broker", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "metadata row 'novelty/1' at offset" in done.stderr
    assert "is of no kind this version knows: a later version of Semel wrote it" in done.stderr
    assert "Traceback" not in done.stderr
    assert {one: one.read_bytes() for one in before} == before

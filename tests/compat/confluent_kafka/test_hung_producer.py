"""A producer that hangs, is replaced, and comes back: both may write, because neither is transactional.

Method: the producer runs in a process that gets SIGSTOP with a batch under way, and SIGCONT when its successor is done.
"""

import signal
import subprocess
import sys

import pytest

from support.compat.compat_clients import ConfluentKafka
from support.compat.compat_kit import Sent, ThreadBroker, batches

# Sends what it reads, one record at a time, and says what became of it.
_PRODUCER = """
import sys
import confluent_kafka
producer = confluent_kafka.Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True, "linger.ms": 0})
for line in sys.stdin:
    said = []
    producer.produce(sys.argv[2], line.strip().encode(), partition=0, on_delivery=lambda e, m: said.append(e))
    producer.flush(30)
    print(said, flush=True)
"""


@pytest.mark.mission("IDEM-08")
def test_a_hung_producer_that_comes_back_is_no_zombie(broker: ThreadBroker, topic: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PRODUCER, broker.bootstrap, topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as hung:
        assert hung.stdin is not None
        assert hung.stdout is not None
        hung.stdin.write("before\n")
        assert hung.stdout.readline() == "[None]\n"
        hung.send_signal(signal.SIGSTOP)
        hung.stdin.write("after\n")
        ConfluentKafka().produce(broker.bootstrap, topic, [Sent(0, None, b"successor")])
        hung.send_signal(signal.SIGCONT)
        assert hung.stdout.readline() == "[None]\n"
        ConfluentKafka().produce(broker.bootstrap, topic, [Sent(0, None, b"third")])
        hung.stdin.write("again\n")
        assert hung.stdout.readline() == "[None]\n"
        hung.stdin.close()
    held = list(batches(broker.directory, topic))
    written = [(records[0].value, header.producer_epoch, header.base_sequence) for header, records in held]
    assert written == [
        (b"before", 0, 0),
        (b"successor", 0, 0),
        (b"after", 0, 1),
        (b"third", 0, 0),
        (b"again", 0, 2),
    ]
    ids = [header.producer_id for header, _records in held]
    assert ids[0] == ids[2] == ids[4]
    assert len(set(ids)) == 3

"""What every client reads of committed, aborted and open transactions, with both isolation levels, and where it says the end is.

Method: two producers write into one partition, one inside the other's open transaction; each client reads it while that one is
open and when it has ended. franz-go has no call for the end of a partition: where it stops is told to it.
"""

from pathlib import Path

import pytest

from support.compat.compat_kit import ThreadBroker
from support.peers import franz_go
from support.transactions.transaction_clients import ConfluentKafka
from support.transactions.transaction_java import TransactionShell
from support.transactions.transaction_readers import READERS, Read, Seen

_JAVA = [pytest.param(name, marks=pytest.mark.java) for name in ("java_4_3", "java_3_9")]
ABORTED, OPEN = b"aborted", b"open"


@pytest.fixture(params=[*READERS, "franz-go", *_JAVA])
def reads(request: pytest.FixtureRequest) -> Read:
    if request.param == "franz-go":
        return with_franz_go(request.getfixturevalue("franz_program"))
    if request.param not in READERS:
        return with_java(request.getfixturevalue(request.param))
    return READERS[request.param]


def with_java(shell: TransactionShell) -> Read:
    def read(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
        return Seen(*shell.read(bootstrap, topic, partition, committed=committed))

    return read


def with_franz_go(program: Path) -> Read:
    def read(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
        end = READERS["semel"](bootstrap, topic, partition, committed).end_offset
        isolation = "read_committed" if committed else "read_uncommitted"
        [told] = franz_go.told(
            franz_go.start(program, "read", bootstrap, topic, str(partition), str(end), isolation)
        )
        return Seen(end, [value.encode() for value in told["values"]])

    return read


@pytest.mark.mission("EXT-01", "READ-01", "READ-16", "R-29")
def test_every_client_reads_what_its_isolation_lets_it(reads: Read, broker: ThreadBroker, topic: str) -> None:
    """Offsets: 0 and 2 aborted and committed with their markers behind them, 4 open, 5 committed within, 6 its marker."""
    short, long = (ConfluentKafka(broker.bootstrap, f"{name} of {topic}") for name in ("short", "long"))
    for value, commit in ((ABORTED, False), (b"0", True)):
        write(short, topic, value)
        short.commit() if commit else short.abort()
    write(long, topic, OPEN)
    write(short, topic, b"1")
    short.commit()
    assert reads(broker.bootstrap, topic, 0, True) == Seen(4, [b"0"])
    assert reads(broker.bootstrap, topic, 0, False) == Seen(7, [ABORTED, b"0", OPEN, b"1"])
    long.abort()
    assert reads(broker.bootstrap, topic, 0, True) == Seen(8, [b"0", b"1"])
    assert reads(broker.bootstrap, topic, 0, False) == Seen(8, [ABORTED, b"0", OPEN, b"1"])


def write(producer: ConfluentKafka, topic: str, value: bytes) -> None:
    producer.begin()
    producer.send(topic, 0, value)
    producer.flush()

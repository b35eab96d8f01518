"""Once a second instance has the transactional id, nothing the first one does works, whichever call it tries first.

Method: with every client, an instance with an open transaction is overtaken; then it commits, aborts, sends a record or sends a
position. Each must fail, and so must everything behind it. Readers of committed records see what its successors wrote.
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Final

import pytest

from support.compat.compat_kit import ThreadBroker
from support.transactions.client_process import ClientFailedError, ProcessProducer
from support.transactions.transaction_clients import (
    ALL_PRODUCERS,
    REFUSALS,
    TransactionalProducer,
    committed_offset,
    read,
)
from support.transactions.transaction_java import JavaError, JavaProducer

Make = Callable[[str, str], TransactionalProducer]
_BY_NAME = {one.name: one for one in ALL_PRODUCERS}
_JAVA = [pytest.param(name, marks=pytest.mark.java) for name in ("java_4_3", "java_3_9")]
_REFUSALS: Final = (*REFUSALS, ClientFailedError, JavaError)


@pytest.fixture(params=[*_BY_NAME, "franz-go", *_JAVA])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param in _BY_NAME:
        return _BY_NAME[request.param]
    if request.param == "franz-go":
        program = str(request.getfixturevalue("franz_program")), "serve"
        return partial(ProcessProducer, request.param, program=program)
    return partial(JavaProducer, shell=request.getfixturevalue(request.param))


@pytest.mark.mission("EXT-01", "FEN-06")
def test_every_call_of_the_first_instance_fails(
    make: Make, broker: ThreadBroker, topic: str, request: pytest.FixtureRequest
) -> None:
    group = f"group of {topic}"

    def send(zombie: TransactionalProducer) -> None:
        zombie.send(topic, 0, b"of a zombie, too late")
        zombie.flush()
        zombie.commit()

    def begin_again(zombie: TransactionalProducer) -> None:
        zombie.begin()
        send(zombie)

    calls: dict[str, Callable[[TransactionalProducer], None]] = {
        "commit": lambda zombie: zombie.commit(),
        "abort": lambda zombie: zombie.abort(),
        "send": send,
        "send an offset": lambda zombie: zombie.send_offset(group, topic, 2, 5),
    }
    if "franz-go" in request.node.name:
        del calls["send an offset"]  # It does that for whole groups only.
    for name, call in calls.items():
        with closing(make(broker.bootstrap, f"of {topic}")) as zombie:
            zombie.begin()
            zombie.send(topic, 0, b"of a zombie")
            zombie.flush()
            owner = make(broker.bootstrap, f"of {topic}")
            assert is_refused(call, zombie), f"{name} of a zombie"
            assert is_refused(begin_again, zombie), f"another transaction after {name} of a zombie"
        # Only now: kafka-python's zombie asks for the next epoch by its old one (KIP-360), which ends what its successor has
        # open, at Apache Kafka as well.
        with closing(owner):
            owner.begin()
            owner.send(topic, 0, b"of the owner")
            owner.commit()
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"of the owner"] * len(calls)
    assert committed_offset(broker.bootstrap, group, topic, 2) < 0


def is_refused(call: Callable[[TransactionalProducer], None], zombie: TransactionalProducer) -> bool:
    try:
        call(zombie)
    except _REFUSALS:
        return True
    return False

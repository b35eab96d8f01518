"""Every blocking client says in a forked child that it is of no use there, and goes on in the parent.

Method: real clients of an embedded broker; the child writes what it was told into a pipe.
"""

import os
import traceback
from collections.abc import Callable

import pytest

import semel
from semel import Admin, Consumer, Producer
from semel.client.sync.shell import Shell


def told_to_the_child(call: Callable[[], object], close: Callable[[], None]) -> str:
    """What a forked child is told by the call; it closes the client, too, which must be harmless."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # The child ends here: pytest never hears of it.
        try:
            call()
            os.write(writing, b"nothing")
        except semel.IllegalStateException as error:
            close()
            os.write(writing, str(error).encode())
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded:DeprecationWarning"
)  # Python 3.12 and later: this is the point.
@pytest.mark.parametrize("kind", ["producer", "consumer", "admin client"])
def test_a_client_does_not_survive_a_fork(kind: str, semel_broker: semel.Broker, semel_topic: str) -> None:
    client: Shell
    call: Callable[[], object]
    if kind == "producer":
        client = producer = Producer(bootstrap_servers=semel_broker.bootstrap)
        call = lambda: producer.send(semel_topic, value="x")  # noqa: E731 - three clients, three calls.
    elif kind == "consumer":
        client = consumer = Consumer(bootstrap_servers=semel_broker.bootstrap)
        consumer.assign([(semel_topic, 0)])
        call = lambda: consumer.poll(timeout_ms=10)  # noqa: E731
    else:
        client = admin = Admin(bootstrap_servers=semel_broker.bootstrap)
        call = admin.list_topics
    with client:
        call()
        said = told_to_the_child(call, client.close)
        assert f"this {kind} was made in process {os.getpid()} and does not survive a fork" in said
        assert f"make a new {kind} in this process" in said
        call()  # The parent goes on.

"""Mistakes of a new user as rows: the call, what it raises, the words that must be in the message, and how soon.

Role.   A table of `tests/mistakes` is a list of `Mistake`s; `judge` makes one and looks at what came of it.
Rules.  * A message says what is wrong and where (`wrong`: the value is among it) and what to do (`do`).
        * A mistake is refused within two seconds, or within the timeout that the row gives. The bound here is wider: CI is slow.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pytest

from semel import Admin, Broker, Consumer, NewTopic, Producer, once
from semel.broker.dispatch import import_handlers
from semel.core.records.build import load_kernels
from semel.runtime.kernel_cache import use_kernel_cache

TOPIC: Final = "orders"
PARTITIONS: Final = 2
DEAD: Final = "127.0.0.1:1"
"""Nobody listens there."""
SOON_SECONDS: Final = 2.0
_GENEROUS: Final = 5
"""So many times the limit, for a machine that does other things as well."""
IMPATIENT_MS: Final = 1000


@dataclass
class World:
    """A broker with one topic, which makes none by itself; and the clients of a row, closed behind it."""

    bootstrap: str
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def producer(self, **settings: Any) -> Producer:
        made = Producer(**{"bootstrap_servers": self.bootstrap, **settings})
        self.closing.callback(made.close, 0)
        return made

    def transactional(self, **settings: Any) -> Producer:
        """One whose transactions were begun with `init_transactions`."""
        made = self.producer(transactional_id="shop-1", **settings)
        made.init_transactions()
        return made

    def beginning(self, **settings: Any) -> Producer:
        """One in a transaction."""
        made = self.transactional(**settings)
        made.begin_transaction()
        return made

    def consumer(self, **settings: Any) -> Consumer:
        made = Consumer(**{"bootstrap_servers": self.bootstrap, **settings})
        self.closing.callback(made.close, 0)
        return made

    def member(self, **settings: Any) -> Consumer:
        """One of a group, subscribed."""
        made = self.consumer(group_id="readers", **settings)
        made.subscribe([TOPIC])
        return made

    def reader(self, **settings: Any) -> Consumer:
        """One with partition 0 assigned."""
        made = self.consumer(**settings)
        made.assign([(TOPIC, 0)])
        return made

    def admin(self, **settings: Any) -> Admin:
        made = Admin(**{"bootstrap_servers": self.bootstrap, **settings})
        self.closing.callback(made.close)
        return made

    def closed(self, client: Any) -> Any:
        client.close()
        return client


@dataclass(frozen=True)
class Mistake:
    """One row."""

    name: str
    call: Callable[[World], object]
    raises: type[BaseException]
    wrong: tuple[str, ...]
    do: str
    seconds: float = SOON_SECONDS


def rows(*mistakes: Mistake) -> pytest.MarkDecorator:
    """A table as the parameters of a test."""
    names = [one.name for one in mistakes]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("mistake", mistakes, ids=names)


def judge(mistake: Mistake, world: World) -> None:
    """Make the mistake; it is refused, soon, in words that help."""
    began = time.monotonic()
    with world.closing, pytest.raises(mistake.raises) as refused:
        mistake.call(world)
    took = time.monotonic() - began
    said = str(refused.value)
    for word in (*mistake.wrong, mistake.do):
        assert word in said, f"{word!r} is missing in: {said}"
    assert "Traceback" not in said
    assert took < _GENEROUS * mistake.seconds, f"refused after {took:.1f} s, not {mistake.seconds:g}"


def _import_all() -> None:
    """All that a row may import, and the kernels: pytest parses every source of ours, and CPython 3.11 cannot always do so on two
    threads, of which the broker has one. Compiling is no part of a mistake either.
    """
    import_handlers()
    use_kernel_cache()
    load_kernels()
    for name in once.__all__:
        getattr(once, name)
    table = pa.table({"value": [b"a"]})
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send_arrow("warm", table).result()


@contextlib.contextmanager
def a_broker() -> Iterator[Broker]:
    """The broker of all rows of a process."""
    _import_all()
    with Broker(auto_create_topics_enable=False) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, PARTITIONS))
        yield broker

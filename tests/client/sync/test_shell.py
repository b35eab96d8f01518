"""What every blocking client promises: usable from anywhere, and a clear word where it is not.

Method: a client whose core is a few coroutines, used from threads, loops, forks, callbacks and under Ctrl-C.
"""

import asyncio
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest

from semel.client.sync.shell import Shell
from semel.errors import ErrorCode, RefusedError
from semel.exceptions import IllegalStateException, ProducerFencedException


class Client(Shell):
    """Echoes, waits, refuses."""

    KIND = "echo client"

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []
        self.is_waiting = threading.Event()

    def _give_up(self) -> None:
        self.ended.append("given up")

    def echo(self, word: str) -> str:
        return self._run(self._echo(word))

    async def _echo(self, word: str) -> str:
        await asyncio.sleep(0)
        return word

    def wait(self) -> None:
        self._run(self._wait())

    async def _wait(self) -> None:
        self.is_waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("wait")

    def fail(self) -> None:
        self._run(self._fail())

    async def _fail(self) -> None:
        raise RefusedError(ErrorCode.PRODUCER_FENCED, "broker 1 refuses: fenced")

    def call_back(self, callback: Callable[[], object]) -> None:
        self._run(self._call_back(callback))

    async def _call_back(self, callback: Callable[[], object]) -> None:
        callback()

    def close(self) -> None:
        self._shut(self._close())

    async def _close(self) -> None:
        self.ended.append("close")


@pytest.fixture
def client() -> Iterator[Client]:
    with Client() as client:
        yield client


def test_it_works_in_a_running_event_loop_as_in_a_notebook(client: Client) -> None:
    async def cell() -> str:
        return client.echo("hello")

    assert asyncio.run(cell()) == "hello"


def test_it_works_from_many_threads(client: Client) -> None:
    said: list[str] = []
    threads = [threading.Thread(target=lambda n=n: said.append(client.echo(str(n)))) for n in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(said) == sorted(map(str, range(8)))


def test_errors_leave_under_javas_names(client: Client) -> None:
    with pytest.raises(ProducerFencedException, match="fenced") as caught:
        client.fail()
    assert isinstance(caught.value.__cause__, RefusedError)


def test_ctrl_c_ends_the_call_and_not_the_client(client: Client) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        client.is_waiting.wait()
        signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell may have had it ignored.
    try:
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            client.wait()
    finally:
        presser.join()
        signal.signal(signal.SIGINT, before)
    assert client.echo("still here") == "still here"
    assert client.ended == ["wait"]


def test_a_callback_may_not_wait_for_its_own_client(client: Client) -> None:
    with pytest.raises(IllegalStateException, match="hand the work to another thread"):
        client.call_back(lambda: client.echo("x"))
    with pytest.raises(IllegalStateException, match="hand the work to another thread"):
        client.call_back(client.close)
    assert client.echo("y") == "y"


def test_after_close_every_call_is_refused_and_closing_again_is_harmless() -> None:
    client = Client()
    client.close()
    client.close()
    assert client.ended == ["close"]
    with pytest.raises(IllegalStateException, match="already been closed"):
        client.echo("x")


@pytest.mark.filterwarnings(
    "ignore:.*multi-threaded:DeprecationWarning"
)  # Python 3.12 and later: this is the point.
def test_after_a_fork_the_child_is_told_to_make_its_own(client: Client) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # No assertion here: the child must end without pytest noticing that it was ever there.
        try:
            with client:
                client.echo("x")
        except IllegalStateException as error:
            os.write(writing, str(error).encode())
        except BaseException:
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    assert f"was made in process {os.getpid()} and does not survive a fork into {child}" in said
    assert "make a new echo client in this process" in said
    assert client.echo("the parent goes on") == "the parent goes on"


def test_a_forgotten_client_is_reported_and_its_thread_ends() -> None:
    client = Client()
    thread = client._thread
    held = [client]
    del client
    with pytest.warns(ResourceWarning, match="unclosed echo client"):
        held.clear()
    assert not thread.is_open

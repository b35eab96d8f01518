"""A client's transactional producer in a process of its own, so that it can be stopped in the middle (SIGSTOP).

Run as a program it is the other end of a Python client: a line of JSON comes in ([method, arguments]), the producer does it,
and a line goes out: null, or what was raised. franz-go's program `serve` speaks the same.
"""

import base64
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

from support.transactions.transaction_clients import (
    ALL_PRODUCERS,
    DEADLINE_SECONDS,
    TIMEOUT_MS,
    FencedOutError,
    TransactionalProducer,
)

_ANSWER_SECONDS: Final = 2 * DEADLINE_SECONDS
_FENCED: Final = FencedOutError.__name__


class ClientFailedError(Exception):
    """What the client raised, by the name of its class, that does not say that it is fenced."""


class ProcessProducer(TransactionalProducer):
    """Drives the producer in the other process."""

    name = "in a process"

    def __init__(
        self,
        client: str,
        bootstrap: str,
        transactional_id: str,
        timeout_ms: int = TIMEOUT_MS,
        *,
        program: Sequence[str] = (sys.executable, __file__),
    ) -> None:
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._ask("open", client, bootstrap, transactional_id, timeout_ms)

    def signal(self, number: signal.Signals) -> None:
        """Stop the whole process, or let it go on."""
        self._process.send_signal(number)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._ask("send", topic, partition, base64.b64encode(value).decode())

    def flush(self) -> None:
        self._ask("flush")

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask("send_offset", group, topic, partition, offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        """However it is: a client that was fenced may not close in order."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, method: str, *arguments: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        overdue = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        overdue.start()
        try:
            self._process.stdin.write(json.dumps([method, arguments]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            overdue.cancel()
        if not line:
            raise ClientFailedError(f"the process ended in {method}")
        raised = json.loads(line)
        if raised is not None:
            kind, text = raised
            raise (FencedOutError if kind == _FENCED else ClientFailedError)(f"{kind}: {text}")


def _serve() -> None:
    kinds = {one.name: one for one in ALL_PRODUCERS}
    producer: TransactionalProducer | None = None
    for line in sys.stdin:
        method, arguments = json.loads(line)
        raised: list[str] | None = None
        try:
            if method == "open":
                client, bootstrap, transactional_id, timeout_ms = arguments
                producer = kinds[client](bootstrap, transactional_id, timeout_ms=timeout_ms)
            else:
                if method == "send":
                    arguments[2] = base64.b64decode(arguments[2])
                call: Any = getattr(producer, method)
                call(*arguments)
        except Exception as error:  # Whatever it is, the test at the other end decides about it.
            raised = [type(error).__name__, str(error)]
        print(json.dumps(raised), flush=True)


if __name__ == "__main__":
    _serve()

"""A real schema registry's answers: recorded through a proxy, and given again without it.

Role.   `recording` stands between a test and a registry and keeps what was asked and answered; `replaying` answers the same
        questions from what was kept. `support.schemas.record` runs the tests with the first, everybody else with the second.
Rules.  * A question is its method, path and JSON. The same question asked again gets the next answer it got then, then the last.
        * A question nobody recorded is answered 418 and fails the test, which is to be recorded anew.
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

RECORDINGS = Path(__file__).parents[2] / "schema" / "recordings" / "apicurio-3.3.3.json"
NOT_RECORDED = 418

Answerer = Callable[[str, str, Any, "BaseHTTPRequestHandler"], tuple[int, str]]


class Exchange(NamedTuple):
    """One question and its answer."""

    method: str
    path: str
    body: Any
    status: int
    answer: str

    @property
    def question(self) -> tuple[str, str, str]:
        return self.method, self.path, json.dumps(self.body, sort_keys=True)


@contextmanager
def serving(answer: Answerer, ssl_context: Any = None) -> Iterator[str]:
    """A server on this machine; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def _go(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            status, text = answer(self.command, self.path, json.loads(content) if content else None, self)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _go  # noqa: N815 - the names are the library's.

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above.
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if ssl_context is not None:
        server.socket = ssl_context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if ssl_context else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def recording(registry: str, exchanges: list[Exchange]) -> Iterator[str]:
    """A proxy of a registry; gives the URL a test is to use, and keeps every exchange."""
    place = urlsplit(registry)

    def answer(method: str, path: str, body: Any, handler: BaseHTTPRequestHandler) -> tuple[int, str]:
        connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=60)
        try:
            kinds = {
                name: handler.headers[name] for name in ("Accept", "Content-Type") if name in handler.headers
            }
            content = None if body is None else json.dumps(body)
            connection.request(method, place.path + path, content, kinds)
            response = connection.getresponse()
            status, text = response.status, response.read().decode()
        finally:
            connection.close()
        exchanges.append(Exchange(method, path, body, status, text))
        return status, text

    with serving(answer) as url:
        yield url


@contextmanager
def replaying(exchanges: list[Exchange]) -> Iterator[str]:
    """A registry that says again what it said; raises if it was asked something else."""
    answers: dict[tuple[str, str, str], list[Exchange]] = {}
    for one in exchanges:
        answers.setdefault(one.question, []).append(one)
    unknown: list[str] = []

    def answer(method: str, path: str, body: Any, _handler: BaseHTTPRequestHandler) -> tuple[int, str]:
        left = answers.get(Exchange(method, path, body, 0, "").question)
        if left is None:
            unknown.append(f"{method} {path} {json.dumps(body)}")
            return NOT_RECORDED, json.dumps({"error_code": NOT_RECORDED, "message": "this was not recorded"})
        found = left.pop(0) if len(left) > 1 else left[0]
        return found.status, found.answer

    with serving(answer) as url:
        yield url
    assert not unknown, f"not recorded, run tests/support/schemas/record.py: {unknown}"


def stories() -> dict[str, list[Exchange]]:
    """Every recorded test's exchanges."""
    if not RECORDINGS.exists():
        return {}
    return {
        name: [Exchange(*one) for one in story]
        for name, story in json.loads(RECORDINGS.read_text())["stories"].items()
    }


def keep(name: str, exchanges: list[Exchange], registry: str) -> None:
    """Write a test's exchanges beside the others'."""
    found = stories() | {name: exchanges}
    document = {"registry": registry, "stories": {one: found[one] for one in sorted(found)}}
    RECORDINGS.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

"""A registry that is away, slow, ill or asks for a login: the next address, then an error that names every address.

Method: small servers on this machine that behave as a registry in trouble does; a real one cannot be asked to.
"""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from semel.exceptions import KafkaException
from semel.schema import RegistryUnreachableError, Schema, SchemaRegistryClient, SchemaRegistryError
from semel.schema.settings import RegistryConfig
from semel.schema.transport import Transport
from support.schemas.examples import ORDER_1
from support.schemas.exchanges import serving

SCHEMA = json.dumps({"schema": ORDER_1})


def client_of(*urls: str, **settings: Any) -> SchemaRegistryClient:
    config = RegistryConfig.of({"url": ",".join(urls), "max.retries": 0, "timeout": 2, **settings})
    return SchemaRegistryClient(config, transport=Transport(config, sleep=lambda _: None))


@contextmanager
def answering(status: int, text: str = SCHEMA) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    def answer(method: str, path: str, _body: Any, handler: BaseHTTPRequestHandler) -> tuple[int, str]:
        asked.append(f"{method} {path} {handler.headers.get('Authorization')}")
        return status, text

    with serving(answer) as url:
        yield url, asked


def closed_port() -> str:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def test_the_next_address_is_asked_and_then_asked_first() -> None:
    away = closed_port()
    with answering(503, "starting") as (ill, ill_asked), answering(200) as (well, well_asked):
        client = client_of(away, ill, well)
        assert client.get_schema(1).schema.schema_str == ORDER_1
        client.get_schema(2)
        assert (len(ill_asked), len(well_asked)) == (1, 2)


def test_an_error_names_every_address_the_question_and_the_way_out() -> None:
    away = closed_port()
    with answering(503, '{"error_code": 50301, "message": "starting"}') as (ill, asked):
        client = client_of(away, ill, **{"max.retries": 2})
        with pytest.raises(RegistryUnreachableError) as error:
            client.get_schema(1)
        assert len(asked) == 3
    said = str(error.value)
    for part in ("schema id 1", away, "Connection refused", ill, "HTTP 503: starting", "schema.registry.url"):
        assert part in said
    assert error.value.retriable
    assert isinstance(error.value, KafkaException)


def test_a_registry_that_never_answers_is_given_up() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        client = client_of(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with pytest.raises(RegistryUnreachableError, match=r"no answer within 0\.2 s"):
            client.get_schema(1)


def test_an_answer_that_trickles_is_given_up() -> None:
    done = threading.Event()

    def trickle(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not done.wait(0.02):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=trickle, args=(server,))
        thread.start()
        try:
            with pytest.raises(RegistryUnreachableError, match=r"no answer within 0\.3 s"):
                client_of(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.3).get_schema(1)
        finally:
            done.set()
            thread.join()


def test_an_answer_that_is_cut_short_is_no_answer() -> None:
    def cut(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"schema": ')

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=cut, args=(server,))
        thread.start()
        with pytest.raises(RegistryUnreachableError, match=r"early|IncompleteRead"):
            client_of(f"http://127.0.0.1:{server.getsockname()[1]}").get_schema(1)
        thread.join()


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (200, "<html>hello</html>", "no JSON: is this the address of a schema registry"),
        (200, "[]", "something else than a schema registry does: .* is no object"),
        (200, '{"schema": 7}', "`schema` is 7, not a text"),
        (404, "<h1>Not Found</h1>", "the address may lack the registry's path"),
        (401, "", "set basic.auth.user.info=NAME:PASSWORD"),
        (403, '{"error_code": 40301, "message": "no"}', "HTTP 403: no; the login may not do this"),
        (302, "", "redirects are not followed"),
        (500, '{"error_code": 50001, "message": "store failed"}', "HTTP 500: store failed"),
    ],
)
def test_another_answer_says_what_it_is(status: int, text: str, said: str) -> None:
    with answering(status, text) as (url, asked), pytest.raises(SchemaRegistryError, match=said) as error:
        client_of(url).get_schema(1)
    assert len(asked) == 1
    assert url in str(error.value)


@pytest.mark.parametrize("way", ["info", "url"])
def test_a_name_and_a_password_log_in_and_are_in_no_text(way: str) -> None:
    with answering(200) as (url, asked):
        if way == "info":
            client = client_of(url, **{"basic.auth.user.info": "ann:se:cret"})
        else:
            client = client_of(url.replace("//", "//ann:se%3Acret@"))
        client.get_schema(1)
    assert asked == [f"GET /schemas/ids/1 Basic {base64.b64encode(b'ann:se:cret').decode()}"]
    assert "cret" not in repr(client) + repr(client._config)
    with pytest.raises(RegistryUnreachableError) as error:
        client.get_schema(2)
    assert "cret" not in str(error.value)


def test_a_token_logs_in() -> None:
    with answering(200) as (url, asked):
        client_of(url, **{"bearer.auth.token": "abc"}).get_schema(1)
    assert asked == ["GET /schemas/ids/1 Bearer abc"]


def test_tls_trusts_only_what_it_is_told_to(tls_files: tuple[Path, Path]) -> None:
    certificate, key = tls_files
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(lambda *_: (200, SCHEMA), context) as url:
        trusting = client_of(url, **{"ssl.ca.location": str(certificate)})
        assert trusting.get_schema(1).schema == Schema(ORDER_1)
        with pytest.raises(RegistryUnreachableError, match="certificate verify failed"):
            client_of(url).get_schema(1)

"""Questions to a schema registry over HTTP, and its answers.

Role.   `Transport.ask` sends one question and gives the JSON of its answer, or raises with the registry's own words.
Flow.   `registry` calls it, from any thread; nothing is kept open between questions, because schemas are asked for rarely.
Rules.  * The standard library's HTTP, one connection per question: no dependency, nothing to close, safe after a fork.
        * An address that cannot be reached, does not answer in time, or answers 502, 503, 504 or 429 is passed over for the next one.
          The address that answered last is asked first. All of them, `retries` more times, and then the error names each.
        * Registering twice is registering once, and deleting what is deleted is a 404: so every question may be asked again.
        * An answer above `ANSWER_BYTES_MAX` is given up. Redirects are not followed: a login must not go elsewhere.
"""

import http.client
import json
import logging
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

from semel._version import __version__
from semel.schema.errors import (
    IncompatibleSchemaError,
    RegistryUnreachableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from semel.schema.settings import RegistryConfig, RegistryUrl

logger = logging.getLogger(__name__)

ANSWER_BYTES_MAX: Final = 64 << 20
_JSON: Final = "application/vnd.schemaregistry.v1+json"
_NOT_NOW: Final = frozenset({429, 502, 503, 504})
_BACKOFF_SECONDS: Final = 0.1
_BACKOFF_MAX_SECONDS: Final = 2.0
_SAID_MAX: Final = 1000


class Transport:
    """One registry, at one or several addresses."""

    def __init__(self, config: RegistryConfig, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._config = config
        self._sleep = sleep
        self._first = 0  # Of a race between threads both outcomes are right: it is only where to begin.

    def ask(self, method: str, path: str, body: Any = None, *, about: str) -> Any:
        """The JSON of the answer. `about` says in an error what the question was for."""
        content = None if body is None else json.dumps(body).encode()
        failures: dict[str, str] = {}
        for attempt in range(self._config.retries + 1):
            if attempt:
                self._sleep(min(_BACKOFF_SECONDS * 2 ** (attempt - 1), _BACKOFF_MAX_SECONDS))
            for at in self._order():
                url = self._config.urls[at]
                try:
                    status, answer = self._attempt(url, method, path, content)
                except (OSError, http.client.HTTPException) as error:
                    failures[str(url)] = _reason(error, self._config.timeout_seconds)
                else:
                    if status not in _NOT_NOW:
                        self._first = at
                        return _read(f"{url}{path}", status, answer, about)
                    failures[str(url)] = f"HTTP {status}: {_said(answer)[1]}"
                logger.info("schema registry %s: %s", url, failures[str(url)])
        tried = "; ".join(f"{url}: {why}" for url, why in failures.items())
        raise RegistryUnreachableError(
            f"{about}: no answer from the schema registry after {self._config.retries + 1} attempts ({tried}). Check "
            "schema.registry.url and that the registry runs",
            url=str(self._config.urls[0]),
        )

    def _order(self) -> list[int]:
        count, first = len(self._config.urls), self._first
        return [(first + index) % count for index in range(count)]

    def _attempt(self, url: RegistryUrl, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        config = self._config
        connection = (
            http.client.HTTPSConnection(
                url.host, url.port, timeout=config.timeout_seconds, context=config.tls
            )
            if url.is_tls
            else http.client.HTTPConnection(url.host, url.port, timeout=config.timeout_seconds)
        )
        headers = {"Accept": f"{_JSON}, application/json", "User-Agent": f"semel/{__version__}"}
        if content is not None:
            headers["Content-Type"] = _JSON
        if config.authorization is not None:
            headers["Authorization"] = config.authorization
        deadline = time.monotonic() + config.timeout_seconds
        try:
            connection.request(method, url.path + path, content, headers)
            response = connection.getresponse()
            answer = bytearray()
            while part := response.read1(
                1 << 16
            ):  # A socket's timeout is for one part: the deadline is for all.
                answer += part
                if len(answer) > ANSWER_BYTES_MAX:
                    raise OSError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError
            if response.length:
                raise OSError(f"the answer ended {response.length} bytes early")
            return response.status, bytes(answer)
        finally:
            connection.close()


def _reason(error: Exception, timeout_seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_seconds:g} s"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _read(where: str, status: int, answer: bytes, about: str) -> Any:
    if status >= 300:
        _refused(where, status, answer, about)
    try:
        return json.loads(answer)
    except ValueError:
        raise SchemaRegistryError(
            f"{about}: {where} answered HTTP {status} with {answer[:60]!r}, no JSON: is this the address of a schema registry?",
            http_status_code=status,
            url=where,
        ) from None


def _refused(where: str, status: int, answer: bytes, about: str) -> NoReturn:
    code, message = _said(answer)
    kind, way_out = SchemaRegistryError, ""
    if status == 404:
        kind = SchemaNotFoundError
        if code < 0:
            way_out = "; the address may lack the registry's path, as /apis/ccompat/v7"
    elif status == 409:
        kind = IncompatibleSchemaError
        way_out = "; change the schema, or the subject's compatibility level"
    elif status == 401:
        way_out = "; set basic.auth.user.info=NAME:PASSWORD or bearer.auth.token"
    elif status == 403:
        way_out = "; the login may not do this"
    elif status < 400:
        way_out = "; redirects are not followed: give the address it leads to"
    raise kind(
        f"{about}: {where} answered HTTP {status}: {message}{way_out}",
        http_status_code=status,
        error_code=status if code < 0 else code,
        url=where,
    )


def _said(answer: bytes) -> tuple[int, str]:
    """The registry's own code and message; -1 and the text itself where it gave none."""
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if isinstance(document, dict):
        code, message = document.get("error_code"), document.get("message")
        if isinstance(code, int):
            return code, str(message)[:_SAID_MAX]
    return -1, answer[:_SAID_MAX].decode(errors="replace").strip() or "nothing was said"

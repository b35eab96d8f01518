"""franz-go behind the face of every client: each call runs one of its programs (`go/franz`) to its end."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from semel.peers.kafka import PeerFailedError
from support.compat.compat_clients import Client, ClientError, Sending
from support.compat.compat_kit import Got, Sent
from support.peers import franz_go

_BEGINS: Final = -2
_ENDS: Final = -1


class FranzGo(Client):
    """github.com/twmb/franz-go."""

    name = "franz-go"

    def __init__(self, program: Path) -> None:
        self._program = program

    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        if sending.lossy:
            raise NotImplementedError("no test needs it to be impatient")
        lines = "\n".join(json.dumps(_line(one)) for one in records)
        idempotent = str(sending.idempotent).lower()
        (answer,) = self._run("send", bootstrap, topic, sending.codec, idempotent, given=lines)
        return list(answer["offsets"])

    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        return [_got(one) for one in self._run("fetch", bootstrap, topic, partition, first_offset, count)]

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        begins, ends = (self._offset(bootstrap, topic, partition, which) for which in (_BEGINS, _ENDS))
        return begins, ends

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        found = self._offset(bootstrap, topic, partition, timestamp_ms)
        return None if found < 0 else found

    def _offset(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int:
        (answer,) = self._run("offset", bootstrap, topic, partition, timestamp_ms)
        return int(answer["offset"])

    def _run(self, *arguments: object, given: str = "") -> list[dict[str, Any]]:
        try:
            return franz_go.told(franz_go.start(self._program, *map(str, arguments)), given)
        except PeerFailedError as error:
            raise ClientError(str(error)) from error


def _line(record: Sent) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [{"key": name, "value": _text(content)} for name, content in record.headers],
        "timestamp": record.timestamp_ms,
    }


def _got(line: dict[str, Any]) -> Got:
    headers = tuple((one["key"], _bytes(one["value"])) for one in line["headers"])
    return Got(
        line["partition"],
        line["offset"],
        _bytes(line["key"]),
        _bytes(line["value"]),
        headers,
        line["timestamp"],
        line["log_append_time"],
    )


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

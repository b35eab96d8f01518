"""Files of settings: Kafka's format read as Kafka writes it, mistakes named with their line.

Method: small files and what they mean.
"""

from pathlib import Path

import pytest

from semel.cli.properties import read_properties
from semel.errors import ConfigError


def read(tmp_path: Path, content: str | bytes) -> dict[str, str]:
    path = tmp_path / "server.properties"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_properties(path)


def test_pairs_comments_and_continued_lines(tmp_path: Path) -> None:
    content = "# a comment\n! another\n\nnode.id=1\n log.dirs : /data \nlisteners=PLAINTEXT://:9092,\\\n  B://:9093\nempty=\n"
    assert read(tmp_path, content) == {
        "node.id": "1",
        "log.dirs": "/data",
        "listeners": "PLAINTEXT://:9092,B://:9093",
        "empty": "",
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a=1\nb", "line 2: 'b' is not key=value"),
        ("a=1\n=2", "line 2: '=2' is not key=value"),
        ("a=1\n\na=2", "line 3: a is set twice, to '1' and '2'"),
        ("a=1\\\n", "line 1: the last line ends with a backslash"),
        (b"a=\xff", "is not text: byte 2 is not UTF-8"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, content)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_properties(tmp_path)

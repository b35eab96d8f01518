"""What `docs/schema.md` shows must run, as it stands and in its order, beside a registry's recorded answers."""

import re
from pathlib import Path
from typing import Any

import pytest

from semel.schema import writing
from semel.schema.settings import _LIBRDKAFKA, _OWN
from semel.spark.schemas import from_registry
from support.schemas.fixtures import registry_url as registry_url  # noqa: PLC0414 - a fixture.

PAGE = (Path(__file__).parent.parent.parent / "docs" / "schema.md").read_text(encoding="utf-8")


def test_the_programs_run(registry_url: str, semel_broker: Any, capsys: pytest.CaptureFixture[str]) -> None:
    programs = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    programs = programs.replace("http://localhost:8081", registry_url)
    exec(compile(programs.replace("localhost:9092", semel_broker.bootstrap), "docs/schema.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said == ["{'id': 7, 'note': 'gift'}", "struct<id: int64 not null, note: string>"]


def test_every_setting_is_there() -> None:
    for name in ({*_OWN, *_LIBRDKAFKA} - {"basic.auth.credentials.source"}) | writing._KEYS:
        assert f"`{name}`" in PAGE, name
    assert from_registry.__name__ in PAGE

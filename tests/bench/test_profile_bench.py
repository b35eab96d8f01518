"""The profile of the broker: that it sees the work, and what the page says of it.

Method: the whole command with little work, on a real broker; a made-up profile for the words.
"""

import pytest

from semel.bench import __main__ as bench
from semel.bench.profile import Cost, Profile, text_of


def test_every_workload_is_profiled_where_its_work_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["profile", "--quick"]) == 0
    parts = capsys.readouterr().out.split("## ")[1:]
    assert [part.splitlines()[0] for part in parts] == [
        "tiny produce requests, 1 in flight",
        "tiny produce requests, 5 in flight",
        "tiny produce requests, 50 in flight",
        "produce 1 MB batches of 100 B",
        "produce 1 MB batches of 1 KiB",
        "fetch 8 MB per request",
        "transactions v1 of one record, 1 producer",
        "transactions v2 of one record, 1 producer",
        "transactions v1 of one record, 10 producers",
        "transactions v2 of one record, 10 producers",
    ]
    assert all("| the log |" in part for part in parts[:3])
    assert all("| floor |" in part for part in parts[:3])
    assert "idempotence: judge and record" in parts[0]
    assert all("transactions: decide and apply" in part for part in parts[6:])


def test_costs_are_shown_in_the_unit_of_the_work() -> None:
    cost = Cost(user=40e-6, system=12.5e-6, wall=80e-6)
    text = text_of(
        Profile("tiny", "request", cost, cost, 95.2, [("the log", 0.4)], [("log/x.py: f", 2, 0.25)])
    )
    assert "| the broker | 40 | 12.5 | 80 |" in text
    assert "95 calls per request" in text
    assert "| `log/x.py: f` | 2 | 25.0% |" in text
    large = text_of(Profile("large", "GB", Cost(0.5, 0.25, 1.5), None, 1e4, [], []))
    assert "| s per GB | user | system | wall |" in large
    assert "floor" not in large


def test_a_quick_look_is_not_for_a_page() -> None:
    with pytest.raises(SystemExit) as refused:
        bench.main(["profile", "--quick", "--write", "page.md"])
    assert refused.value.code == 2

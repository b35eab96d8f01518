"""What `docs/client.md` shows must run, as it stands and in its order.

Method: the page's programs are run one after the other in one interpreter, as a reader would paste them; what they print is
looked at where the page promises something.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from semel.client.sync.admin import Admin

PAGE = Path(__file__).parent.parent.parent / "docs" / "client.md"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_programs_run(page: str, tmp_path: Path) -> None:
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "page.py"
    script.write_text("\n".join(programs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "orders 0 0"
    assert "b'customer-7' b'two coffees'" in said
    assert "10 -1" in said
    assert "86400000" in said
    assert "TOPIC_ALREADY_EXISTS False" in said
    assert any(line.startswith("# TYPE kafka_producer_") for line in said)


def test_the_table_names_every_call(page: str) -> None:
    shown = set(re.findall(r"`([a-z_]+)`", page[page.index("| about | calls |") : page.index("## Errors")]))
    public = {name for name in dir(Admin) if not name.startswith("_")}
    calls = {name for name in public if name.islower()} - {"close", "config", "metrics"}
    other_names = {
        "describe_groups",
        "describe_classic_groups",
        "delete_groups",
        "force_terminate_transaction",
    }
    assert shown >= calls - other_names
    assert {name for name in shown if "_" in name} <= calls | {"semel.aio"}


def test_the_page_of_settings_is_what_the_tables_say() -> None:
    root = PAGE.parent.parent
    spec = importlib.util.spec_from_file_location(
        "client_settings", root / "tools" / "client_settings_page.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.written(), (
        "run: python tools/client_settings_page.py"
    )

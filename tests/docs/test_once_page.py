"""What `docs/once.md` shows must run, as it stands and in its order.

Method: the page's programs are run one after the other in one interpreter, as a reader would paste them, in an empty folder;
what they print is looked at. The names the page gives must exist.
"""

import re
import subprocess
import sys
from pathlib import Path

import semel.once

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "once.md").read_text(encoding="utf-8")


def test_the_programs_run(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", "the page's programs follow the page's advice: nothing warns"
    said = done.stdout.splitlines()
    assert said[0] == "billed 10"
    assert "'processed'>: 9" in said[1]
    assert "ValueError: no such customer" in said[1]
    assert said[2:] == ["waiting 0", "mail for a", "mail for b", "charged 10", "shipped 10"]


def test_every_name_is_there() -> None:
    for name in re.findall(r"`(\w+Error|\w+Claims|Inbox|Outbox|Deduplicator|exactly_once_sink)\b", PAGE):
        assert hasattr(semel.once, name), name
    for path in re.findall(r"(?:examples|tests)/\w+\.py", PAGE):
        assert (ROOT / path).exists(), path


def test_every_public_name_loads() -> None:
    for name in semel.once.__all__:
        assert getattr(semel.once, name).__module__.startswith("semel.once."), name
    assert set(semel.once.__all__) <= set(dir(semel.once))

"""What the README shows runs, and prints what it says.

Method: its Python is executed as it stands; the comments behind `print` are what must come out.
"""

import contextlib
import io
import re
from pathlib import Path

from semel.broker.dispatch import import_handlers

README = (Path(__file__).parent.parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    if "semel.spark" not in block  # tests/spark/test_readme_on_spark.py
]


def test_the_python_in_the_readme_prints_what_it_says() -> None:
    import_handlers()  # As the pytest plugin does: not on the broker's thread.
    assert BLOCKS
    for block in BLOCKS:
        expected = re.findall(r"print\(.*\) +# (.*)", block)
        assert expected
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), {})
        assert printed.getvalue().splitlines() == expected


def test_the_commands_in_the_readme_exist() -> None:
    makefile = (Path(__file__).parent.parent.parent / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert commands
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_link_in_the_readme_leads_somewhere() -> None:
    root = Path(__file__).parent.parent.parent
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / target).exists(), target

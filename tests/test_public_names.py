"""The public names: pinned, loadable, and light to import.

Method: every name is loaded; a fresh interpreter shows what `import semel` and a client bring along.
"""

import importlib
import pkgutil
import re
import subprocess
import sys

import semel
import semel.aio


def test_every_name_loads() -> None:
    for module in (semel, semel.aio):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(semel.__all__) - {"__version__"} == set(semel._HOMES)
    assert set(semel.aio.__all__) == set(semel.aio._HOMES)


PUBLIC = {"aio", "embedded", "exceptions", "once", "pytest_plugin", "schema", "spark", "telemetry"}
"""Modules of `semel` that programs or pytest import, or that hold a public class under its own name."""


def test_modules_that_are_not_public_say_so() -> None:
    there = {one.name for one in pkgutil.iter_modules(semel.__path__) if not one.name.startswith("_")}
    assert there > PUBLIC
    silent = {
        name
        for name in there
        if not re.search(r"\bInternal[:,]", importlib.import_module(f"semel.{name}").__doc__ or "")
    }
    assert silent == PUBLIC


def test_a_name_that_is_not_there() -> None:
    for module in (semel, semel.aio):
        assert not hasattr(module, "Nothing")


def loaded_by(program: str) -> set[str]:
    """The modules a fresh interpreter has after this program."""
    code = f"{program}\nimport sys\nprint('\\n'.join(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_importing_the_package_is_light() -> None:
    loaded = loaded_by("import semel, semel.aio")
    assert not {"asyncio", "numpy", "pyarrow", "numba", "semel.client", "semel.broker"} & loaded


def test_a_client_never_imports_the_broker() -> None:
    loaded = loaded_by("import semel\nsemel.Producer, semel.Consumer")
    assert not {
        one for one in loaded if one.startswith(("semel.broker", "semel.log", "semel.cluster", "numba"))
    }

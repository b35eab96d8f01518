"""The public names: pinned, loadable, and light to import.

Method: every name is loaded; a fresh interpreter shows what `import semel` and a client bring along.
"""

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

"""Wheel and source archive: the same bytes from the same tree, and a Semel that works where nothing else is installed.

Method: both are built from this tree without the network, by uv and the backend of the development environment. A new environment
gets the wheel and the locked dependencies out of uv's cache; commands run there, outside of the checkout. `make wheels` fills the
cache. Where it lacks something the test is skipped with the reason, except in CI.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from distribution import ROOT, Built, DistributionError, bill_of_materials, build, make_environment
from first_minute import sizes
from semel._version import __version__
from semel.runtime.environment import commit

EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}
BLOCK = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]
LIBRARY = Path("src", "semel", "core", "records", "semel_kernels.so")
PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("built"), environment=EPOCH)


@pytest.fixture(scope="module")
def clean(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with nothing but Semel and what it needs."""
    try:
        return make_environment(tmp_path_factory.mktemp("clean") / "venv", built.wheel, offline=True)
    except DistributionError as error:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(f"uv's cache lacks something (make wheels fills it): {error}")


def unpacked(archive: Path | None, into: Path, *, with_library: bool) -> Path:
    """The archive's tree; `with_library` brings the checkout's compiled kernels, which take seconds to make."""
    assert archive is not None
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    (tree,) = into.iterdir()
    assert not (tree / LIBRARY).exists()
    if with_library and (ROOT / LIBRARY).exists():
        shutil.copy(ROOT / LIBRARY, tree / LIBRARY)
    return tree


def outside(python: Path, elsewhere: Path, **more: str) -> dict[str, Any]:
    """How a process outside of the checkout runs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {"cwd": elsewhere, "env": {**kept, "HOME": str(elsewhere), **more}, "text": True}


def said(python: Path, elsewhere: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        arguments,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        **outside(python, elsewhere, **more),
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return str(done.stdout)


def commit_in(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as opened:
        (found,) = re.findall(r"^COMMIT = '(.*)'$", opened.read("semel/_commit.py").decode(), re.MULTILINE)
    return str(found)


def test_the_same_tree_gives_the_same_bytes_and_the_archive_the_same_wheel(
    built: Built, tmp_path: Path
) -> None:
    again = build(ROOT, tmp_path / "again", environment=EPOCH)
    assert again.wheel.read_bytes() == built.wheel.read_bytes()
    assert built.archive is not None
    assert again.archive is not None
    assert again.archive.read_bytes() == built.archive.read_bytes()
    tree = unpacked(built.archive, tmp_path / "tree", with_library=False)
    from_archive = build(tree, tmp_path / "third", archive=False, environment=EPOCH)
    assert from_archive.wheel.read_bytes() == built.wheel.read_bytes()
    tree = unpacked(built.archive, tmp_path / "other", with_library=True)
    later = build(tree, tmp_path / "later", archive=False, environment={"SOURCE_DATE_EPOCH": "1800000000"})
    assert later.wheel.read_bytes() != built.wheel.read_bytes(), "the time is of the environment"


def test_the_commit_is_kept_by_wheel_and_archive_and_may_be_unknown(built: Built, tmp_path: Path) -> None:
    assert commit_in(built.wheel) == commit()
    tree = unpacked(built.archive, tmp_path / "tree", with_library=True)
    named = build(tree, tmp_path / "named", archive=False, environment={"SEMEL_COMMIT": "c0ffee1234"})
    assert commit_in(named.wheel) == "c0ffee1234"
    (tree / "src" / "semel" / "_commit.py").unlink()
    nowhere = build(tree, tmp_path / "nowhere", archive=False)
    assert commit_in(nowhere.wheel) == "unknown"


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as opened:
        names = opened.namelist()
    assert {name.split("/")[0] for name in names} == {
        "semel",
        "pyspark_semel",
        f"semel-{__version__}.dist-info",
    }
    assert "semel/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_archive_has_what_its_own_tests_and_builds_need(built: Built) -> None:
    assert built.archive is not None
    with tarfile.open(built.archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names >= {"Makefile", "LICENSE", "README.md", "locks/runtime.txt", "locks/dev.txt"}
    assert {"hatch_build.py", "tests/conftest.py", "docs/operations.md"} <= names


def test_the_dozen_lines_and_the_commands_run_in_a_clean_environment(clean: Path, tmp_path: Path) -> None:
    semel = str(clean.parent / "semel")
    version = said(clean, tmp_path, semel, "--version")
    assert version == f"semel {__version__} (commit {commit()})\n"
    assert said(clean, tmp_path, str(clean), "-m", "semel", "--version") == version
    assert "Example: semel demo" in said(clean, tmp_path, semel, "--help")
    where = said(clean, tmp_path, str(clean), "-c", "import semel; print(semel.__file__)")
    assert Path(where.strip()).is_relative_to(clean.parent.parent)
    said(
        clean, tmp_path, str(clean), "-m", "semel.runtime.kernel_cache"
    )  # Compiling takes its time beside other tests.
    (tmp_path / "dozen.py").write_text(BLOCK)
    expected = re.findall(r"print\(.*\) +# (.*)", BLOCK)
    assert said(clean, tmp_path, str(clean), "dozen.py").splitlines() == expected
    done = subprocess.run([semel, "demo"], capture_output=True, check=False, **outside(clean, tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "PySpark, which is not installed: pip install 'semel[spark]'" in done.stderr
    command = [semel, "verify", "spark", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, check=False, **outside(clean, tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "workload spark runs on PySpark, which is not installed: pip install 'semel[spark]'" in done.stderr
    told = said(clean, tmp_path, semel, "demo", "--story", "records", "--records", "20000")
    assert "stored       20,000" in told
    with broker(clean, tmp_path) as (process, bootstrap):
        said(clean, tmp_path, semel, "topics", "create", "orders", "-b", bootstrap)
        assert "orders" in said(clean, tmp_path, semel, "topics", "list", "-b", bootstrap)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0


TOUR = """
import sys
import pyarrow as pa
from semel import Admin, Broker, Consumer, NewTopic, Producer

ROWS = 1000
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
table = pa.table({
    "key": [None if n % 7 == 0 else b"%d" % (n % 50) for n in range(ROWS)],
    "value": [b"value %d" % n for n in range(ROWS)],
    "timestamp": pa.array(range(1_700_000_000_000, 1_700_000_000_000 + ROWS), pa.timestamp("ms", "UTC")),
    "partition": pa.array([n % 4 if n % 3 == 0 else None for n in range(ROWS)], pa.int16()),
    "headers": pa.array([[("at", b"%d" % n)] if n % 5 == 0 else None for n in range(ROWS)], HEADERS),
})
with Broker() as broker:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("rows", 4)])
    with Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd"}) as producer:
        producer.send_arrow("rows", table).result()
    with Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["rows"])
        found = []
        while len(found) < ROWS:
            found += consumer.poll_arrow(timeout_ms=30_000).to_pylist()
print(sorted(int(one["value"][6:]) for one in found) == list(range(ROWS)))
print(all(one["partition"] == int(one["value"][6:]) % 4 for one in found if int(one["value"][6:]) % 3 == 0))
print(all((one["headers"] or []) == ([{"key": "at", "value": one["value"][6:]}] if int(one["value"][6:]) % 5 == 0 else []) for one in found))
print("numpy" in sys.modules)
"""
IMPORTS = """
import importlib, pkgutil, semel
lacking = {}
for module in pkgutil.walk_packages(semel.__path__, "semel.", onerror=lambda name: None):
    if module.name.endswith(("__main__", "semel_kernels")):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:
        lacking.setdefault(missing.name.partition(".")[0], []).append(module.name)
print(*sorted(lacking.pop("numpy", [])))
print(*sorted(lacking))
"""
INSTALLED_BYTES_MAX = 250_000_000


def test_a_client_alone_takes_less_than_250_megabytes(clean: Path) -> None:
    """Without pip, as uv makes environments; bytecode is not counted: it is made later, or not at all."""
    (packages,) = clean.parent.parent.glob("lib/python*/site-packages")
    assert sum(sizes(packages).values()) < INSTALLED_BYTES_MAX, sizes(packages)
    assert not (packages / "numpy").exists()


@pytest.mark.parametrize("has_kernels", [True, False], ids=["compiled", "plain Python"])
def test_columns_are_sent_and_read_without_numpy(clean: Path, tmp_path: Path, has_kernels: bool) -> None:
    (tmp_path / "tour.py").write_text(TOUR)
    more = {}
    if not has_kernels:  # As a wheel of another platform, before numba is there.
        (installed,) = clean.parent.parent.glob("lib/python*/site-packages/semel")
        shutil.copytree(
            installed, tmp_path / "pure" / "semel", ignore=shutil.ignore_patterns("*.so", "__pycache__")
        )
        more = {"PYTHONPATH": str(tmp_path / "pure")}
    assert said(clean, tmp_path, str(clean), "tour.py", **more).split() == ["True", "True", "True", "False"]


def test_numpy_is_needed_by_the_shop_alone(clean: Path, tmp_path: Path) -> None:
    """Which runs on Spark, whose extra brings it; so does that of schemas. Every module is imported, as far as it goes."""
    lacking, others = said(clean, tmp_path, str(clean), "-c", IMPORTS).splitlines()
    assert lacking
    shop = ("semel.verify.demo.shop.", "semel.cli.demo_shop")
    assert all(name.startswith(shop) for name in lacking.split()), lacking
    assert set(others.split()) <= {"google", "llvmlite", "numba", "pyspark", "pytest", "sqlalchemy"}


@contextmanager
def broker(python: Path, elsewhere: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`semel broker` of that environment, and where it listens."""
    command = [str(python.parent / "semel"), "broker", "--listen", "127.0.0.1:0", "--data-dir", "data"]
    with (elsewhere / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, **outside(python, elsewhere))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " ready on " in line, (elsewhere / "log").read_text()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def flaws(bill: dict[str, Any]) -> object:
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))


def test_the_bill_of_materials_is_cyclonedx_and_names_what_is_installed(built: Built, clean: Path) -> None:
    bill = bill_of_materials(clean, built.wheel)
    assert flaws(bill) is None
    assert bill.keys().isdisjoint({"serialNumber", "timestamp"}), "the same for the same wheel"
    subject = bill["metadata"]["component"]
    assert (subject["name"], subject["version"]) == ("semel", __version__)
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "locks" / "runtime.txt").read_text(), re.MULTILINE)
    )
    found = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in bill["components"]}
    assert found.items() <= locked.items()
    assert {"click", "cramjam", "pyarrow"} <= found.keys()
    assert all(one["licenses"] for one in bill["components"])
    bill["components"][0]["type"] = "no such type"
    assert flaws(bill) is not None, "a flaw is found"


def test_the_runtime_lock_is_part_of_the_development_lock() -> None:
    """So `make install` fills uv's cache with it, and tests run on the versions that a release names."""
    pinned = [
        set(re.findall(r"^[a-z0-9-]+==[^ ;]+", (ROOT / "locks" / name).read_text(), re.MULTILINE))
        for name in ("runtime.txt", "dev.txt")
    ]
    assert pinned[0] <= pinned[1]


def test_a_copy_inside_somebody_elses_repository_has_no_commit_of_theirs(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    from semel.runtime.environment import commit_of_checkout

    package = tmp_path / "venv" / "semel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "their.txt").write_text("theirs")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "their.txt"], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    assert commit_of_checkout(package) == "unknown"
    subprocess.run([*git, "add", "-f", "venv"], check=True, capture_output=True)
    assert re.fullmatch(r"[0-9a-f]{10} with uncommitted changes", commit_of_checkout(package))

"""The first minute of a new user, timed: from a wheel, in a clean environment. Written to docs/first-minute.md.

Usage: python tools/first_minute.py [--write] [--wheel FILE]

Method: the wheel is built here, or given; pip installs it into a new virtual environment, from the index or cache it is
configured for. The README's first program runs there as it stands, with a clock behind every line: first without any
cache, then again. Then the same once more without the wheel's compiled kernels, with and without numba's cache.
Rules.  Every figure on the page was measured by the run that wrote it; the page says when, and on which machine.
"""

import argparse
import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from semel.runtime.environment import environment

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "first-minute.md"
TIMES: Final = 10
MEGABYTE: Final = 1_000_000
_TOGETHER: Final = {
    "numpy.libs": "numpy",
    "setuptools": "pip",
    "pkg_resources": "pip",
    "_distutils_hack": "pip",
}
_SHOWN_MIN: Final = 4 * MEGABYTE

_CLOCK: Final = """
import sys as _sys, time as _time, resource as _resource
def _lap(line, begun=float(_sys.argv[1])):
    used = _resource.getrusage(_resource.RUSAGE_SELF)
    now = _time.clock_gettime(_time.CLOCK_MONOTONIC) - begun
    print(f"LAP\\t{line}\\t{now:.3f}\\t{used.ru_utime + used.ru_stime:.3f}\\t{used.ru_maxrss}", flush=True)
"""


_IMPORT: Final = "import time; begun = time.perf_counter(); import semel; print(time.perf_counter() - begun)"


class Lap(NamedTuple):
    """A line of the program, with what had been spent when it was done."""

    line: str
    seconds: float
    cpu_seconds: float


class Run(NamedTuple):
    """One run of the program."""

    laps: list[Lap]
    said: list[str]
    memory_bytes: int

    def at(self, text: str) -> Lap:
        """When the line with this text was done."""
        return next(lap for lap in self.laps if text in lap.line)


class Spent(NamedTuple):
    """What a command took."""

    seconds: float
    cpu_seconds: float


def program() -> str:
    """The README's first."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def with_clock(source: str) -> str:
    """The program with a clock behind every statement that is done in its place."""
    lines = source.splitlines()

    class Clocks(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            if not (isinstance(node, ast.With | ast.Module)):
                return node
            body: list[ast.stmt] = [_lap(lines[node.lineno - 1])] if isinstance(node, ast.With) else []
            for statement in node.body:
                body.append(statement)
                if not isinstance(statement, ast.With | ast.Assign):
                    body.append(_lap(lines[statement.lineno - 1]))
            node.body = body
            return node

    def _lap(line: str) -> ast.stmt:
        return ast.parse(f"_lap({line.split('  #', maxsplit=1)[0].rstrip()!r})").body[0]

    tree = Clocks().visit(ast.parse(source))
    return f"{_CLOCK}\n{ast.unparse(ast.fix_missing_locations(tree))}\n_lap('(the end)')\n"


def spent(command: list[str], environment: Mapping[str, str]) -> Spent:
    """Run a command, and measure it and its children."""
    before, begun = os.times(), time.monotonic()
    subprocess.run(command, check=True, env=dict(environment), stdout=subprocess.DEVNULL)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Spent(time.monotonic() - begun, cpu)


def run(python: Path, script: Path, environment: Mapping[str, str]) -> Run:
    """Run the program with its clock."""
    done = subprocess.run(
        [python, script, str(time.clock_gettime(time.CLOCK_MONOTONIC))],
        env=dict(environment),
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    laps, said, memory = [], done.stderr.splitlines(), 0
    for line in done.stdout.splitlines():
        if line.startswith("LAP\t"):
            _, text, seconds, cpu, kilobytes = line.split("\t")
            laps.append(Lap(text, float(seconds), float(cpu)))
            memory = int(kilobytes) * 1024
        else:
            said.append(line)
    return Run(laps, said, memory)


def sizes(site_packages: Path) -> dict[str, int]:
    """Bytes of each installed package, the largest first; small ones together."""
    found: dict[str, int] = {}
    for entry in site_packages.iterdir():
        name = _TOGETHER.get(entry.name) or entry.name.partition("-")[0]
        inside = (
            [entry]
            if entry.is_file()
            else [path for path in entry.rglob("*") if path.is_file() and not path.is_symlink()]
        )
        found[name] = found.get(name, 0) + sum(path.stat().st_size for path in inside)
    large = {name: size for name, size in found.items() if size >= _SHOWN_MIN}
    others = sum(found.values()) - sum(large.values())
    return dict(sorted(large.items(), key=lambda one: -one[1])) | {"others": others}


def built(folder: Path) -> Path:
    """A wheel of these sources."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def page(folder: Path, wheel: Path) -> str:
    """Do it all, and say what was measured."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "NUMBA", "SEMEL", "VIRTUAL"))
    }
    clean["XDG_CACHE_HOME"] = str(folder / "cache")
    pip_cache = {key: value for key, value in os.environ.items() if key == "XDG_CACHE_HOME"}
    venv = folder / "venv"
    made = spent([sys.executable, "-m", "venv", str(venv)], clean)
    bare = sizes(next(venv.glob("lib/python*/site-packages")))
    python, pip = venv / "bin" / "python", {**clean, **pip_cache}
    if not pip_cache:
        del pip["XDG_CACHE_HOME"]
    installed = spent(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], pip
    )
    site_packages = next(venv.glob("lib/python*/site-packages"))
    each = sizes(site_packages)
    own = sum(each.values()) - sum(bare.values())

    imports = [float(_said(python, _IMPORT, clean)) for _ in range(TIMES)]
    script = folder / "dozen.py"
    script.write_text(with_clock(program()), encoding="utf-8")
    cold = run(python, script, clean)
    warm = [run(python, script, clean) for _ in range(TIMES)]
    fastest = min(warm, key=lambda one: one.laps[-1].seconds)

    library = next(site_packages.glob("semel/core/records/*.so"), None)
    here = environment("python tools/first_minute.py --write")
    where = f"{here.processor}, {here.cores} cores, {here.python}"
    lines = [
        _HEAD.format(
            when=here.date, commit=here.commit, machine=where, load=os.getloadavg()[1], wheel=wheel.name
        )
    ]
    lines += [
        "$ python -m venv .venv",
        f"{_took(made)}",
        "$ .venv/bin/pip install semel",
        f"{_took(installed)}",
        f"  {own / MEGABYTE:.0f} MB more than an empty environment: "
        + ", ".join(f"{name} {size / MEGABYTE:.0f}" for name, size in each.items() if name != "pip"),
        "$ .venv/bin/python -c 'import semel'",
        f"  {statistics.median(imports):.3f} s (the median of {TIMES})",
        "$ .venv/bin/python dozen.py        # the first time",
        *_shown(cold),
        f"$ .venv/bin/python dozen.py        # again: the fastest of {TIMES} runs",
        *_shown(fastest),
        "```",
        "",
    ]
    if library is not None:
        library.unlink()
        lines += _without_library(python, script, clean, folder)
    return "\n".join(lines) + "\n"


_HEAD: Final = """# The first minute

`pip install semel`, and the dozen lines of the [README](../README.md), timed in a clean environment. Made by
`python tools/first_minute.py --write`; do not edit.

Measured {when} at commit {commit}, {machine}, with a load average of {load:.0f}: where that is more
than the number of cores, trust CPU seconds. pip took packages from its cache where it had them. The wheel:
`{wheel}`.

A line stands here when it is done, with the seconds since the process began and the CPU seconds spent.

```"""


def _without_library(python: Path, script: Path, clean: dict[str, str], folder: Path) -> list[str]:
    """The same where the wheel has no compiled kernels, as on macOS: in plain Python, and with numba's."""
    plain = run(python, script, clean)
    first, sent = plain.at("send_arrow"), plain.laps[-1]
    lines = [
        "## Without compiled kernels",
        "",
        "Wheels for Linux on x86-64 bring [compiled kernels](decisions/0017-kernels-in-the-wheel.md). Elsewhere numba compiles them, once, in a",
        "process of low priority. Until then the same loops run in plain Python, and one line says so. The program above, with the library",
        "taken out of the environment:",
        "",
        "| | rows given | the end | CPU s |",
        "|---|---:|---:|---:|",
        f"| plain Python, no numba installed | {first.seconds:.2f} s | {sent.seconds:.2f} s | {sent.cpu_seconds:.2f} |",
    ]
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numba"], check=True
    )
    filled, unfilled = ({**clean, "SEMEL_KERNEL_CACHE": str(folder / name)} for name in ("filled", "cache"))
    filling = spent([str(python), "-m", "semel.runtime.kernel_cache"], filled)
    full = run(python, script, filled)
    empty = run(python, script, unfilled)
    while _works_in(folder):  # The process it left behind, which fills the cache.
        time.sleep(0.2)
    first, sent = empty.at("send_arrow"), empty.laps[-1]
    lines.append(
        f"| numba, nothing compiled yet | {first.seconds:.2f} s | {sent.seconds:.2f} s | {sent.cpu_seconds:.2f} |"
    )
    first, sent = full.at("send_arrow"), full.laps[-1]
    lines += [
        f"| numba's cache is filled | {first.seconds:.2f} s | {sent.seconds:.2f} s | {sent.cpu_seconds:.2f} |",
        "",
        f"Filling the cache took {filling.cpu_seconds:.1f} CPU s. The lines that were logged:",
        "",
        "```",
        *[line for one in (plain, empty) for line in one.said if line.startswith("semel ")],
        "```",
    ]
    return [line.replace(str(folder / "cache"), "~/.cache/semel/kernels") for line in lines]


def _said(python: Path, program: str, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [python, "-c", program], env=dict(environment), capture_output=True, text=True, check=True
    )
    return done.stdout


def _works_in(folder: Path) -> bool:
    """Whether a process was started with this folder among its arguments."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # It has just ended.
            if str(folder / "cache") in one.read_text():
                return True
    return False


def _took(one: Spent) -> str:
    return f"  {one.seconds:.1f} s, {one.cpu_seconds:.1f} CPU s"


def _shown(one: Run) -> list[str]:
    laps = [f"  {lap.seconds:5.2f} s  {lap.cpu_seconds:5.2f} CPU s  {lap.line}" for lap in one.laps]
    return [*one.said, *laps, f"  {one.memory_bytes / MEGABYTE:.0f} MB of memory at most"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the first minute of a new user.")
    parser.add_argument(
        "--wheel", type=Path, help="the wheel to install; built from these sources if it is not given"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}; without it, print the page"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="semel-first-minute-") as folder:
        found = page(Path(folder), arguments.wheel or built(Path(folder)))
    if arguments.write:
        PAGE.write_text(found, encoding="utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main()

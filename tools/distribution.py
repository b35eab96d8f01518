"""Wheel, source archive and bill of materials: built here, and tried in an environment that has nothing else.

Run as a program, `python tools/distribution.py build` fills `dist`, and `sbom` writes the bill of materials of its wheel there.
Both leave the environment they tried in `build/clean`.

Rules.  * Nothing is built from the network: the build backend is in the development environment.
        * An environment gets the versions of `locks/runtime.txt`, with their hashes, and the wheel without its dependencies: a
          dependency that the lock lacks is found by `check`.
        * The same tree gives the same bytes; `SOURCE_DATE_EPOCH` is the time of every file.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
_UV: Final = str(Path(sys.executable).parent / "uv")


class Built(NamedTuple):
    """The two files of a release."""

    wheel: Path
    archive: Path | None


class DistributionError(Exception):
    """A tool refused; the text is what it said."""


def build(
    tree: Path, into: Path, *, archive: bool = True, environment: dict[str, str] | None = None
) -> Built:
    """Build both, or only the wheel, from this tree."""
    kinds = ["--wheel", "--sdist"] if archive else ["--wheel"]
    _uv(
        "build", *kinds, "--offline", "--no-build-isolation", "--python", sys.executable,
        "--out-dir", str(into), str(tree), environment=environment,
    )  # fmt: skip
    return Built(*(next(iter(sorted(into.glob(kind))), None) for kind in ("*.whl", "*.tar.gz")))  # type: ignore[arg-type]


def make_environment(path: Path, wheel: Path, *, offline: bool) -> Path:
    """A new environment with the locked dependencies and this wheel; its Python."""
    reach = ["--offline"] if offline else []
    python = path / "bin" / "python"
    _uv("venv", "--clear", "--offline", "--python", sys.executable, str(path))
    to = ["--python", str(python)]
    _uv("pip", "sync", *reach, "--require-hashes", *to, str(ROOT / "locks" / "runtime.txt"))
    _uv("pip", "install", "--offline", "--no-deps", *to, str(wheel))
    _uv("pip", "check", *to)
    return python


def bill_of_materials(python: Path, wheel: Path) -> dict[str, Any]:
    """What is installed for this Python, as CycloneDX: the wheel is the subject, the rest its components."""
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "cyclonedx_py",
                "environment",
                "--pyproject",
                str(ROOT / "pyproject.toml"),
            ),
            *("--mc-type", "library", "--spec-version", "1.6", "--output-reproducible", str(python)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DistributionError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    version = wheel.name.split("-")[1]
    found["metadata"]["component"] |= {
        "version": version,
        "purl": f"pkg:pypi/semel@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
    }
    return found


def _uv(*arguments: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [_UV, *arguments, "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | (environment or {}),
    )
    if done.returncode:
        raise DistributionError(f"uv {' '.join(arguments)}: {done.stderr.strip()}")


def main(arguments: Sequence[str]) -> None:
    """`build` or `sbom`."""
    dist = ROOT / "dist"
    if arguments == ["build"]:
        for old in dist.glob("semel-*"):
            old.unlink()
        built = build(ROOT, dist)
        make_environment(ROOT / "build" / "clean", built.wheel, offline=False)
        for file in built:
            print(file)
    elif arguments == ["sbom"]:
        (wheel,) = dist.glob("*.whl")
        python = make_environment(ROOT / "build" / "clean", wheel, offline=False)
        file = dist / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        file.write_text(json.dumps(bill_of_materials(python, wheel), indent=2) + "\n", encoding="utf-8")
        print(file)
    else:
        raise SystemExit("usage: python tools/distribution.py build|sbom")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Semel and what it needs as one archive, for clusters whose machines have only Python and Spark.

Role.   `pack` writes an archive that `spark-submit --archives FILE#semel` unpacks beside every executor, where
        `spark.executorEnv.PYTHONPATH=semel` makes it importable. No tool beside Python is needed.
Flow.   `python -m semel.spark.packing semel.zip`, once per release; docs/spark.md has the whole command.
Rules.  * What is packed is what is installed here: versions are those this program runs with. Executors need the same version of
          Python and the same kind of machine, because some of it is compiled.
        * PySpark stays out: a cluster brings its own.
        * The same installation gives the same names in the same order.
"""

import argparse
import importlib
import importlib.metadata
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from semel.errors import SemelError

_OWN_PACKAGES: Final = ("semel", "pyspark_semel")
_LEFT_OUT: Final = frozenset({"pyspark", "py4j", "uv", "pip"})
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_COMPRESSION_LEVEL: Final = 1  # The network is fast, and most of it is machine code.


class PackingError(SemelError):
    """Something that should be packed is not installed."""


def pack(target: str | os.PathLike[str], *, dependencies: bool = True) -> Path:
    """Write the archive (`.zip`); without `dependencies` only Semel itself, for machines that have the rest."""
    path = Path(target)
    if path.suffix != ".zip":
        raise PackingError(f"{path}: name the archive .zip, by which Spark knows how to unpack it")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
            for name, file in sorted(_files(dependencies=dependencies)):
                archive.write(file, name)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _files(*, dependencies: bool) -> Iterator[tuple[str, Path]]:
    """Name in the archive and file of everything that is packed."""
    for package in _OWN_PACKAGES:
        yield from _package(package)
    if dependencies:
        for name in sorted(_closure("semel") - {"semel"}):
            yield from _distribution(name)


def _package(name: str) -> Iterator[tuple[str, Path]]:
    """A package of ours, wherever it is: installed, or the working tree of somebody who develops it."""
    file = importlib.import_module(name).__file__
    if file is None:
        raise PackingError(f"{name} has no files here")
    root = Path(file).parent
    for found in root.rglob("*"):
        if found.is_file() and "__pycache__" not in found.parts:
            yield f"{name}/{found.relative_to(root).as_posix()}", found


def _distribution(name: str) -> Iterator[tuple[str, Path]]:
    for file in importlib.metadata.distribution(name).files or ():
        where = Path(str(file.locate()))
        inside = file.as_posix()
        # Scripts and data outside of the packages are of no use to an executor.
        if not inside.startswith("..") and "__pycache__" not in inside and where.is_file():
            yield inside, where


def _closure(name: str) -> set[str]:
    """A distribution and all it requires, without extras, as far as this machine needs it."""
    found, wanted = set[str](), [name]
    while wanted:
        one = _normal(wanted.pop())
        if one in found or one in _LEFT_OUT:
            continue
        try:
            requires = importlib.metadata.requires(one) or []
        except importlib.metadata.PackageNotFoundError:
            if one == name:
                raise PackingError(f"{name} is not installed here: pip install {name}") from None
            continue  # Of another system, or an older Python: it is not needed here.
        found.add(one)
        wanted += [_named(text) for text in requires if "extra ==" not in text]
    return found


def _named(requirement: str) -> str:
    match = _REQUIREMENT.match(requirement)
    if match is None:
        raise PackingError(f"{requirement!r} is not a requirement")
    return match.group()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m semel.spark.packing", description=__doc__)
    parser.add_argument("target", help="the archive to write, as semel.zip")
    parser.add_argument("--only-semel", action="store_true", help="leave out what Semel requires")
    given = parser.parse_args(arguments)
    try:
        path = pack(given.target, dependencies=not given.only_semel)
    except PackingError as error:
        print(f"semel: {error}", file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    print(f"spark-submit --archives {path}#semel --conf spark.executorEnv.PYTHONPATH=semel … your_program.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())

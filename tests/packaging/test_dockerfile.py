"""The Dockerfile: its files reach the builder, its variables are the broker's, and its health check tells life from death.

Method: no container engine runs here. The file is read as instructions; its health check is run as it stands against a broker.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from distribution import ROOT
from semel.cli.broker import command
from support.broker.broker_process import running_broker

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
INSTRUCTIONS = [
    tuple(line.split(None, 1))
    for line in re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
    if line
]


def of(name: str) -> list[str]:
    return [rest for found, rest in INSTRUCTIONS if found == name]


def variables() -> dict[str, str]:
    return dict(re.findall(r'(\w+)="?([^"\s]+)"?', " ".join(of("ENV"))))


def is_sent(path: str) -> bool:
    """Whether the builder sees this file: the last pattern of .dockerignore that matches it decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        above = [path, *(str(one) for one in Path(path).parents)]
        if any(fnmatch.fnmatch(one, pattern) for one in above):
            sent = line.strip().startswith("!")
    return sent


def test_every_copied_file_exists_and_is_sent_to_the_builder() -> None:
    copied = [rest.split()[:-1] for rest in of("COPY") if not rest.startswith("--from")]
    sources = [source for some in copied for source in some]
    assert {"src", "pyproject.toml", "locks/runtime.txt", "hatch_build.py", "tools/native_kernels.py"} <= set(
        sources
    )
    for source in sources:
        assert (ROOT / source).exists(), source
        assert is_sent(source), source
    assert is_sent("src/semel/cli/main.py")
    for kept_back in (".git/config", ".venv/bin/python", "tests/conftest.py", "dist/semel.whl"):
        assert not is_sent(kept_back), kept_back


def test_variables_are_those_of_the_command() -> None:
    known = {str(option.envvar) for option in command.params if option.envvar}
    known |= {"PATH", "PYTHONUNBUFFERED", "SEMEL_KERNEL_CACHE"}
    assert variables().keys() <= known
    assert {"SEMEL_LISTEN", "SEMEL_DATA_DIR", "SEMEL_METRICS"} <= variables().keys()
    (volume,) = of("VOLUME")
    assert variables()["SEMEL_DATA_DIR"].startswith(f"{volume}/")
    assert variables()["SEMEL_KERNEL_CACHE"].startswith(f"{volume}/")


def test_it_is_no_root_and_gets_signals() -> None:
    (user,) = of("USER")
    assert all(int(one) >= 10_000 for one in user.split(":")), "Kubernetes' runAsNonRoot needs numbers"
    (entry,), (arguments,) = of("ENTRYPOINT"), of("CMD")
    assert [*json.loads(entry), *json.loads(arguments)] == ["tini", "--", "semel", "broker"]
    assert of("STOPSIGNAL") == ["SIGTERM"]


def test_only_plain_image_names_and_locked_dependencies() -> None:
    assert of("FROM") == ["python:${PYTHON}-slim AS build", "python:${PYTHON}-slim"]
    assert "--require-hashes --requirement locks/runtime.txt" in TEXT


@pytest.mark.parametrize("lives", [True, False])
def test_the_health_check_tells_life_from_death(tmp_path: Path, lives: bool) -> None:
    (check,) = of("HEALTHCHECK")
    arguments = json.loads(check[check.index("[") :])
    assert arguments[0] == "python"
    with running_broker(tmp_path / "data", "--metrics", "127.0.0.1:0") as broker:
        assert broker.process.stdout is not None
        address = broker.process.stdout.readline().split("//")[1].removesuffix("/metrics\n")
        if not lives:
            broker.stop()
        done = subprocess.run(
            [sys.executable, *arguments[1:]],
            env=os.environ | {"SEMEL_METRICS": address},
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode == 0) is lives, done.stderr

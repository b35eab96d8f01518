"""The pytest plugin: what docs/testing.md shows runs, in one process and under xdist, with topics of each test's own.

Method: pytest in a process of its own on a folder of tests, the plugin found by its entry point as a user's would be.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "testing.md"


def run_pytest(directory: Path, *arguments: str) -> str:
    """The output of pytest; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, str(directory)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=directory,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_s_test_and_settings_run_as_they_stand(tmp_path: Path) -> None:
    theirs, ours, chaos, conftest, plain = examples()
    (tmp_path / "test_orders.py").write_text(theirs)
    (tmp_path / "test_ours.py").write_text(ours)
    (tmp_path / "test_chaos.py").write_text(chaos)
    assert "3 passed" in run_pytest(tmp_path)
    (tmp_path / "test_ours.py").unlink()
    (tmp_path / "test_chaos.py").unlink()
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_orders.py").write_text(
        "from kafka import KafkaConsumer\n"
        "def test_settings(semel_broker, semel_topic):\n"
        "    consumer = KafkaConsumer(bootstrap_servers=semel_broker.bootstrap)\n"
        "    assert consumer.partitions_for_topic(semel_topic) == {0, 1, 2}\n"
        "    consumer.close()\n"
    )
    assert "1 passed" in run_pytest(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", plain], capture_output=True, text=True, check=True, timeout=60
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)


def test_under_xdist_every_worker_has_one_broker_and_every_test_its_topic(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(
        "import pathlib, os, pytest\n"
        "@pytest.mark.parametrize('case', ['a/b c', 'ü', *'defgh'])\n"
        "def test_one(semel_broker, semel_topic, case, worker_id):\n"
        "    line = f'{worker_id} {semel_broker.bootstrap} {semel_topic}'\n"
        "    pathlib.Path(f'said-{os.getpid()}-{case[:1]}').write_text(line)\n"
    )
    assert "7 passed" in run_pytest(tmp_path, "-n", "2", "--dist", "load")
    said = [path.read_text().split() for path in tmp_path.glob("said-*")]
    assert len({topic for _worker, _bootstrap, topic in said}) == 7
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) for _worker, _bootstrap, topic in said)
    brokers = {(worker, bootstrap) for worker, bootstrap, _topic in said}
    assert (
        len({worker for worker, _ in brokers}) == len({bootstrap for _, bootstrap in brokers}) == len(brokers)
    )


def test_a_test_that_asks_for_nothing_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_none.py").write_text(
        "import sys\n"
        "def test_light(request):\n"
        "    assert request.config.pluginmanager.has_plugin('semel')\n"
        "    assert not {'semel.broker', 'semel.client', 'numba', 'pyarrow'} & set(sys.modules)\n"
    )
    assert "1 passed" in run_pytest(tmp_path)

"""`semel.Broker`: a broker inside this process, quick to start, clean to stop, honest about misuse.

Method: start it, talk to it as any client would, and look at what is left behind.
"""

import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import semel
from semel import Admin, Broker, ConfigResource, ConfigResourceType, Consumer, Producer
from semel.embedded import EmbeddedError
from semel.errors import ConfigError, LogDirLockedError
from support.broker.prometheus_kit import of, read_page


def sent(bootstrap: str, *values: bytes) -> list[int]:
    """The offsets at which they lie."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        futures = [producer.send("orders", value) for value in values]
    return [one.result().offset for one in futures]


def read(bootstrap: str, count: int) -> list[bytes]:
    """The first records there are."""
    found: list[bytes] = []
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        while len(found) < count:
            found += [record.value for record in consumer.poll(500)]
    return found


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary data goes, so that what is left of it can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_data_of_another_broker_is_refused_in_the_words_of_this_class(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, node_id=3):
        pass
    with pytest.raises(ConfigError) as refused:
        Broker(data_dir=tmp_path, node_id=4).start()
    assert str(refused.value) == (
        f"{tmp_path} belongs to broker 3, this is broker 4: use its node.id or another data_dir"
    )


def test_it_shows_its_metrics_where_it_is_told_to() -> None:
    with Broker(metrics="127.0.0.1:0") as broker:
        assert sent(broker.bootstrap, b"one", b"two") == [0, 1]
        with urllib.request.urlopen(broker.metrics_url, timeout=60) as answer:
            page = read_page(answer.read().decode())
        assert of(page, "kafka_server_brokertopicmetrics_messagesinpersec", topic="orders") == 2
        assert "process_cpu_seconds_total" not in page, "the process is not the broker's"
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        Broker(metrics="9404")
    with Broker() as broker, pytest.raises(EmbeddedError, match="this broker shows no metrics"):
        _ = broker.metrics_url


def test_it_serves_inside_the_with_and_leaves_nothing(temporary: Path) -> None:
    with Broker() as broker:
        assert Path(broker.data_dir).parent == temporary
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert sent(broker.bootstrap, b"one", b"two") == [0, 1]
        assert read(broker.bootstrap, 2) == [b"one", b"two"]
        port = broker.port
    assert list(temporary.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_given_data_stays_and_is_found_again(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path / "data")
    for expected in (0, 1):
        with broker:
            assert sent(broker.bootstrap, b"x") == [expected]
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_many_run_in_one_process_each_with_its_own_topics() -> None:
    with Broker() as one, Broker() as two:
        assert one.port != two.port
        assert sent(one.bootstrap, b"first") == sent(two.bootstrap, b"second") == [0]
        assert read(one.bootstrap, 1) == [b"first"]
        assert read(two.bootstrap, 1) == [b"second"]


def test_settings_are_kafkas_with_underscores_for_dots() -> None:
    with Broker(num_partitions=3) as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert len(producer.partitions_for("orders")) == 3


@pytest.mark.parametrize(
    ("given", "delay_ms"),
    [
        ({}, "0"),
        ({"group_initial_rebalance_delay_ms": 1234}, "1234"),
        ({"group.initial.rebalance.delay.ms": "1234"}, "1234"),
    ],
)
def test_a_first_member_waits_for_others_only_if_it_is_told_to(given: dict[str, Any], delay_ms: str) -> None:
    name, where = "group.initial.rebalance.delay.ms", ConfigResource(ConfigResourceType.BROKER, "1")
    with Broker(**given) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.describe_configs([where])[where][name].value == delay_ms


def test_a_wrong_setting_is_said_before_anything_starts() -> None:
    with pytest.raises(
        ConfigError, match=r"num_partition is not a setting of a broker: did you mean num\.partitions"
    ):
        Broker(num_partition=3)
    with pytest.raises(
        ConfigError, match="listeners is not a keyword of an embedded broker: use host and port"
    ):
        Broker(listeners="PLAINTEXT://:9092")


def test_what_it_is_not_ready_for_is_refused_with_a_way_out() -> None:
    broker = Broker()
    with pytest.raises(EmbeddedError, match=r"not running: call start\(\), or use it in a with statement"):
        _ = broker.bootstrap
    with broker, pytest.raises(EmbeddedError, match=r"running already, on 127\.0\.0\.1:"):
        broker.start()
    broker.stop()  # Once more does no harm.


def test_a_start_that_fails_leaves_nothing_and_may_be_tried_again(temporary: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = Broker(port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            broker.start()
    assert list(temporary.iterdir()) == []
    with broker:
        assert broker.port


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path), pytest.raises(LogDirLockedError, match="another broker in this process"):
        Broker(data_dir=tmp_path).start()


def _in_child(broker: Broker, answers: "multiprocessing.Queue[str]") -> None:
    for act in (broker.stop, broker.start):
        try:
            act()
        except EmbeddedError as error:
            answers.put(str(error))
    with socket.create_connection(("127.0.0.1", broker.port)):
        answers.put("connected")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_may_connect_but_neither_stop_nor_start(temporary: Path) -> None:
    fork = multiprocessing.get_context("fork")
    with Broker() as broker:
        answers = fork.Queue()
        child = fork.Process(target=_in_child, args=(broker, answers))
        child.start()
        told = [answers.get(timeout=60) for _ in range(3)]
        child.join(60)
        assert child.exitcode == 0
        assert f"runs in process {os.getpid()}" in told[0]
        assert "only its own process can stop it; make a new Broker here" in told[0]
        assert "can start it" in told[1]
        assert told[2] == "connected"
        assert sent(broker.bootstrap, b"still here") == [0]


def run_python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )


def test_a_process_that_forgets_to_stop_still_leaves_nothing(tmp_path: Path) -> None:
    done = run_python("from semel import Broker; print(Broker().start().bootstrap)", TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("127.0.0.1:")
    assert list(tmp_path.glob("semel-*")) == []


def test_a_process_that_forgets_to_stop_ends_without_warnings(tmp_path: Path) -> None:
    """Where warnings are errors a socket left open once kept the loop from closing, and the process from ending."""
    program = (
        "import socket; from semel import Broker\n"
        "broker = Broker().start()\n"
        "host, _, port = broker.bootstrap.partition(':')\n"
        "client = socket.create_connection((host, int(port)))\n"
        "client.close()\n"
        "other = socket.create_connection((host, int(port))).detach()\n"
    )
    done = run_python(program, TMPDIR=str(tmp_path), PYTHONWARNINGS="error")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.glob("semel-*")) == []


def test_a_program_whose_transaction_takes_too_long_is_told_why_and_ends(tmp_path: Path) -> None:
    """As the first program of a new user did, on a machine so busy that a minute was too short, before kernels came compiled."""
    program = (
        "import time\n"
        "from semel import Admin, Broker, Producer\n"
        "with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:\n"
        "    settings = {'bootstrap.servers': broker.bootstrap, 'transactional.id': 'slow', 'transaction.timeout.ms': 100}\n"
        "    with Producer(settings) as producer:\n"
        "        producer.init_transactions()\n"
        "        with producer.transaction():\n"
        "            producer.send('orders', b'first').result(60)\n"
        "            while admin.list_transactions(states=['Ongoing', 'PrepareAbort', 'PrepareEpochFence']):\n"
        "                time.sleep(0.05)\n"
    )
    done = run_python(program, TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "expired by the broker" in done.stderr.splitlines()[-1]
    assert list(tmp_path.glob("semel-*")) == []


@pytest.mark.mission("ZK-17")
def test_one_call_is_all_and_no_other_process_is_needed(tmp_path: Path) -> None:
    """Whatever starts a process tells Python's audit first; so does whoever connects to somewhere. There is no ZooKeeper to be found,
    started or installed."""
    program = (
        "import importlib.metadata, socket, sys\n"
        "from semel import Broker, Producer\n"
        "started, reached = [], set()\n"
        "def heard(event, arguments):\n"
        "    if event.startswith(('os.exec', 'os.fork', 'os.posix_spawn', 'os.spawn', 'os.system', 'subprocess.')):\n"
        "        started.append(event)\n"
        "    elif event == 'socket.connect' and arguments[0].family in (socket.AF_INET, socket.AF_INET6):\n"
        "        reached.add(arguments[1][1])\n"
        "sys.addaudithook(heard)\n"
        "with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:\n"
        "    print(producer.send('orders', b'one').result(60).offset)\n"
        "    print(started, reached <= {broker.port})\n"
        "needed = [one for one in importlib.metadata.requires('semel') if 'extra ==' not in one]\n"
        "print([one for one in [*sys.modules, *needed] if 'kazoo' in one or 'zookeeper' in one.lower()])\n"
    )
    done = run_python(program, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["0", "[] True", "[]"]


def test_importing_semel_is_light() -> None:
    done = run_python(
        "import sys, semel\n"
        "heavy = {'asyncio', 'numba', 'numpy', 'pyarrow', 'uvloop', 'semel.broker', 'semel.embedded'}\n"
        "print(sorted(heavy & set(sys.modules)), 'Broker' in dir(semel))\n"
        "semel.Broker\n"
        "print(sorted({'numba', 'numpy', 'pyarrow'} & set(sys.modules)))\n"
    )
    assert done.stdout.splitlines() == ["[] True", "[]"]


def test_a_name_that_is_not_public() -> None:
    with pytest.raises(AttributeError, match="module 'semel' has no attribute 'Brokre'"):
        _ = semel.Brokre


_CLOSED_AT_THE_END = """
import atexit, sys
import semel

broker = semel.Broker(data_dir=sys.argv[1])
broker.__enter__()
producer = semel.Producer({"bootstrap.servers": broker.bootstrap})
atexit.register(broker.__exit__, None, None, None)
atexit.register(producer.close)
producer.send("orders", b"last words")
"""


def test_a_program_may_close_everything_when_the_interpreter_ends(tmp_path: Path) -> None:
    """No thread can be started then: what is given is stored all the same, and nothing hangs."""
    script = tmp_path / "program.py"
    script.write_text(_CLOSED_AT_THE_END)
    data = tmp_path / "data"
    done = subprocess.run(
        [sys.executable, str(script), str(data)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with Broker(data_dir=data) as broker, semel.Consumer({"bootstrap.servers": broker.bootstrap}) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in consumer.poll(timeout_ms=30_000)] == [b"last words"]

"""`semel advise`: every way through the two questions ends at its settings, and a producer takes them."""

import json

import pytest
from click.testing import CliRunner, Result

from semel import Broker, Producer
from semel.cli import advise
from semel.cli.main import cli

WAYS = [
    (["--together"], "transactions"),
    (["--not-together", "--repeats-harm"], "idempotence"),
    (["--not-together", "--repeats-harmless"], "neither"),
]


def semel(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(cli, ["advise", *arguments], input=typed)


@pytest.mark.mission("GUIDE-12")
@pytest.mark.parametrize(("options", "choice"), WAYS)
def test_two_answers_lead_to_settings_a_producer_takes(
    options: list[str], choice: str, semel_broker: Broker
) -> None:
    result = semel(*options, "-o", "json")
    assert result.exit_code == 0, result.output
    advised = json.loads(result.stdout)
    assert advised["choice"] == choice
    printed = semel(*options).output.splitlines()
    assert printed == [advised["why"], *(f"{key}={value}" for key, value in advised["settings"].items())]
    with Producer({"bootstrap.servers": semel_broker.bootstrap, **advised["settings"]}) as producer:
        assert producer.config["enable.idempotence"] is (choice != "neither")
        assert (producer.config["transactional.id"] is not None) is (choice == "transactions")


@pytest.mark.mission("GUIDE-12")
@pytest.mark.parametrize(
    ("typed", "choice"), [("y\n", "transactions"), ("n\ny\n", "idempotence"), ("n\nn\n", "Neither")]
)
def test_a_person_is_asked(typed: str, choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    class System:
        stdin = Terminal()

    monkeypatch.setattr(advise, "sys", System)
    result = semel(typed=typed)
    assert result.exit_code == 0, result.output
    assert choice in result.stdout
    assert result.output.count("[y/N]") == typed.count("\n")


def test_a_program_must_answer_itself() -> None:
    result = semel()
    assert result.exit_code == 2
    assert "answer with --together" in result.output

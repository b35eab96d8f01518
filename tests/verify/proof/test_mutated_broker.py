"""The judgement of real runs finds a broker that breaks a rule.

Method: a proof on a broker of its own whose process runs with one mutation of the catalogue, in short rounds until something is
found; what is found must be of the kind that the rule protects. The same proof finds nothing on a broker without one (`test_prove`).
What only a power cut shows (an answer before the sync, a lost snapshot) no process that is killed can show: those are the simulation's.
"""

import asyncio
from collections.abc import Iterable

import pytest

from semel.verify.mutations.catalogue import MUTATIONS
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.judge import Limits
from semel.verify.proof.options import Options, ProofError
from semel.verify.proof.runner import prove

PATIENT = Limits(stuck_seconds=600, unavailable_seconds=600)
"""A machine that has other things to do breaks no promise, and proves none broken."""


def found(mutation: str, workload: str, faults: Iterable[str]) -> list[Finding]:
    """What the first round finds in which anything is found."""
    assert mutation in MUTATIONS
    options = Options(
        mutation=mutation,
        workloads=(workload,),
        faults=tuple(faults),
        fault_seconds=0.5 if faults else 0.0,
        seconds=200,
        round_seconds=5,
        seed=1,
        partitions=3,
        limits=PATIENT,
    )
    return asyncio.run(prove(options, lambda _stage, _what: None)).findings


@pytest.mark.parametrize(
    ("mutation", "workload", "faults", "anomaly"),
    [
        ("no duplicate is known", "idempotence", ("network",), Anomaly.DUPLICATE),
        ("the last stable offset ignored", "transactions", (), Anomaly.ABORTED_READ),
    ],
)
def test_what_a_broker_does_wrong_is_found(
    mutation: str, workload: str, faults: tuple[str, ...], anomaly: Anomaly
) -> None:
    assert anomaly in {one.anomaly for one in found(mutation, workload, faults)}


@pytest.mark.campaign  # Each takes from seconds to minutes of a machine.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("mutation", "workload", "faults", "anomaly"),
    [
        ("a duplicate answered with another offset", "idempotence", ("network",), Anomaly.INCONSISTENT),
        ("acknowledged and not stored", "idempotence", (), Anomaly.LOST),
        ("producers forgotten at a restart", "idempotence", ("network", "kill"), Anomaly.DUPLICATE),
        ("no list of aborted transactions", "transactions", (), Anomaly.ABORTED_READ),
        ("commit here, abort there", "transactions", (), Anomaly.TORN),
        ("an epoch given twice", "transactions", (), Anomaly.ZOMBIE),
        ("any epoch may end a transaction", "transactions", (), Anomaly.ZOMBIE),
        ("no marker for one partition", "transform", (), Anomaly.STUCK),
        ("offsets outside the transaction", "transform", (), Anomaly.OFFSET_WITHOUT_OUTPUT),
        ("offsets forgotten at a restart", "groups", ("kill",), Anomaly.POSITION_LOST),
        ("commits of an earlier generation", "groups", (), Anomaly.FORMER_OWNER),
        ("commits of an earlier epoch", "groups", (), Anomaly.FORMER_OWNER),
        ("a rebalance without an end", "groups", (), Anomaly.GROUP_STUCK),
    ],
)
def test_what_a_broker_does_wrong_is_found_in_the_end(
    mutation: str, workload: str, faults: tuple[str, ...], anomaly: Anomaly
) -> None:
    assert anomaly in {one.anomaly for one in found(mutation, workload, faults)}


@pytest.mark.campaign
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("workload", "program"), [("transform", "transformer-"), ("groups", "-member-")])
def test_an_aborted_record_that_a_program_of_a_group_is_handed_is_found(workload: str, program: str) -> None:
    findings = found("no list of aborted transactions", workload, ())
    assert any(one.anomaly is Anomaly.ABORTED_READ and program in one.why for one in findings)


def test_no_cluster_but_our_own_is_broken() -> None:
    options = Options(against="127.0.0.1:1", mutation="no duplicate is known", workloads=("idempotence",))
    with pytest.raises(ProofError, match="can be done to a broker of its own only"):
        asyncio.run(prove(options, lambda _stage, _what: None))

"""One proof, from the first topic to the judgement.

Role.   `prove` plays programs and faults on a cluster, in rounds, and judges what the programs saw. The command line shows it.
Flow.   a broker of our own unless there is a cluster -> the proxy -> `Round` after round, each judged -> `Proof`.
Rules.  * The first round in which something is found is the last: its history is kept, with its topics if the cluster is not ours.
        * A broker of our own that ends by itself is an error of its own.
        * A proof that cannot be carried out to its end says what was seen until then (`UnfinishedError`).
        * The history of every round is handed to `keep` when the round is over, however it ended; one round is held at a time.
"""

import asyncio
import contextlib
import math
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from semel.client.admin.client import AsyncAdmin
from semel.exceptions import KafkaException
from semel.verify.fault_proxy import FaultProxy
from semel.verify.faults.cluster import FaultCluster
from semel.verify.faults.disturber import Proxy, requests_harmed
from semel.verify.faults.harmed_process import HarmedBroker
from semel.verify.history.events import ClientEvent
from semel.verify.proof.anomalies import Finding
from semel.verify.proof.group_members import CLASSIC, CONSUMER, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS
from semel.verify.proof.judge import judge
from semel.verify.proof.options import GROUPS, Options, ProofError
from semel.verify.proof.round import Progress, Round, Scene
from semel.verify.proof.timeline import Summary, Timeline
from semel.verify.proof.vitals import Vitals, Watch

_BROKER_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
}
_GROUP_VERSION: Final = "group.version"


@dataclass(slots=True)
class Proof:
    """The history of a proof, and its findings."""

    options: Options
    history: list[ClientEvent]
    """Of the round in which something was found, else of the last."""
    findings: list[Finding]
    faults: dict[str, int]
    """How often each was done."""
    played: dict[str, int] = field(default_factory=dict, kw_only=True)
    """The same by the names of their kinds."""
    impossible: list[str] = field(default_factory=list, kw_only=True)
    """The kinds of faults that cannot be played there."""
    harmed: int
    """Requests that were lost, late or repeated on the way."""
    troubles: dict[str, int]
    """Errors that applications met, by name."""
    seconds: float
    version: str
    """The version the proof ran on."""
    summary: Summary = field(default_factory=Summary)
    timeline: Timeline = field(default_factory=Timeline)
    vitals: list[Vitals] = field(default_factory=list)
    """Of a broker of our own."""
    rounds: int = 1
    error: str = ""
    """Why it could not be carried out to its end, and nothing is proved."""


class UnfinishedError(ProofError):
    """It began, and could not be carried out to its end."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(proof.error)
        self.proof = proof


Keep: TypeAlias = Callable[[Sequence[ClientEvent]], None]


async def prove(options: Options, progress: Progress, keep: Keep | None = None) -> Proof:
    """Play, and judge."""
    began = time.monotonic()

    def now() -> float:
        return time.monotonic() - began

    async with _broker(options) as (bootstrap, broker, scratch):
        protocols = await _protocols(bootstrap, options)
        with _proxy(bootstrap, options) as proxy:
            name = f"semel-verify-{random.SystemRandom().randrange(16**6):06x}"
            dice = random.Random(options.seed)
            scene = Scene(options, name, bootstrap, proxy, broker, protocols, scratch, progress, now, dice)
            proof = Proof(
                options,
                [],
                [],
                scene.faults,
                0,
                scene.troubles,
                0.0,
                options.against or "a broker of its own",
                played=scene.played,
                impossible=scene.impossible,
            )
            watch = Watch(lambda: None if broker is None else broker.pid, now, proof.vitals)
            watching = asyncio.create_task(watch.run())
            try:
                await _play(scene, proof, keep)
            except ProofError as error:
                proof.error = str(error)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            proof.harmed = requests_harmed(proxy)
    proof.seconds = now()
    if proof.error:
        raise UnfinishedError(proof)
    return proof


async def _play(scene: Scene, proof: Proof, keep: Keep | None) -> None:
    options = scene.options
    count = 1 if options.each_once else max(1, math.ceil(options.seconds / options.round_seconds))
    for number in range(count):
        one = Round(scene, number, options.seconds / count)
        try:
            await one.play()
        except KafkaException as error:
            raise ProofError(f"the proof could not be carried out: {error}") from error
        finally:
            proof.rounds = number + 1
            proof.history = one.history
            proof.summary.add(one.history)
            proof.timeline.add(one.history)
            if keep is not None:
                keep(one.history)
            _check_alive(scene.broker)
        proof.findings = judge(one.history, options.limits)
        if proof.findings:
            return
        await one.clean_up()


def _check_alive(broker: HarmedBroker | None) -> None:
    if broker is not None and broker.code is not None:
        raise ProofError(f"the broker ended by itself, with {broker.code}: {broker.last_words()}")


@contextlib.asynccontextmanager
async def _broker(options: Options) -> AsyncIterator[tuple[str, HarmedBroker | None, Path]]:
    with tempfile.TemporaryDirectory(prefix="semel-verify-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        if options.against is not None:
            if options.mutation is not None:
                raise ProofError(f"{options.mutation!r} can be done to a broker of its own only")
            yield options.against, None, scratch
            return
        broker = HarmedBroker(scratch / "data", _BROKER_SETTINGS, mutation=options.mutation)
        await asyncio.to_thread(broker.start)
        try:
            yield broker.bootstrap, broker, scratch
        finally:
            await asyncio.to_thread(broker.kill)


def _proxy(bootstrap: str, options: Options) -> Proxy:
    """Before the one broker that is ours, or before each of a cluster."""
    protocol = options.settings.get("security.protocol", "PLAINTEXT").upper()
    if options.fault_seconds and "SSL" in protocol:
        raise ProofError(
            f"security.protocol={protocol}: the proxy for faults on the way cannot read what is encrypted; "
            "run without faults (--fault-every 0), or use a listener without TLS"
        )
    if options.against is None:
        return FaultProxy(bootstrap, exchanges_max=0)
    return FaultCluster(bootstrap)


async def _protocols(bootstrap: str, options: Options) -> tuple[str, ...]:
    """How groups can be held together there."""
    if GROUPS not in options.workloads:
        return ()
    async with AsyncAdmin({**options.settings, "bootstrap.servers": bootstrap}) as admin:
        features = (await admin.describe_features()).finalized_features
    has_consumer = _GROUP_VERSION in features and features[_GROUP_VERSION].max_version_level >= 1
    return (CLASSIC, CONSUMER) if has_consumer else (CLASSIC,)

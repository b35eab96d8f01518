"""The promises of a group in every run: a pure judgement over its history.

Role.   `judge` gives every broken promise as a sentence, as `invariants.judge` does for records.
Rules.  The promises:
        * One owner: in one generation no partition belongs to two members.
        * Released: where the broker assigns, a partition comes to a member only after the one before has let it go, or is out.
        * Fenced: once somebody has entered a later generation, no commit of an earlier one is stored. Where the broker assigns
          (KIP-848), members enter an epoch one by one: there it holds for each partition, once another member owns it.
        * Kept: OffsetFetch answers the last committed offset that was stored, or one that was on its way. It never goes
          back, also through kills, and through power cuts if the topic of offsets is synced before answers.
        * Complete: every record that is in the log was processed by a member that owned its partition.
        A power cut may take rows that were not promised to survive one: then generations and offsets begin anew. So they
        do at every later start: a group without members and offsets is forgotten then.
        A mixed group has members of both protocols. Once it is empty, a first member of the other protocol founds it anew,
        and generations begin at one again, as in Kafka. So a generation tells owners only while both protocols are present.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from semel.core.groups.rows import OFFSETS_TOPIC
from semel.types import TopicPartition
from semel.verify.history.events import CommitAnswered, CommitAsked, CommittedSeen, Owned, Read, Reopened
from semel.verify.history.run import History
from semel.verify.simulation.invariants import Broken

_NOTHING: Final = -1
_UNSURE: Final = (None, "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
"""No answer, or one that says that the coordinator could not go on: stored or not, nobody knows."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit of one partition, and what became of it."""

    era: int
    rank: int
    """Its generation, where generations only grow."""
    number: int
    member: str
    offset: int
    sent_at: float
    answered_at: float | None
    code: str | None

    @property
    def order(self) -> tuple[int, int, int]:
        return self.era, self.rank, self.number

    @property
    def is_stored(self) -> bool:
        return self.code == "NONE"

    @property
    def is_unsure(self) -> bool:
        return self.code in _UNSURE


def judge(history: History, group: set[str], kip848: Collection[str] = ()) -> list[Broken]:
    """Every promise that was broken. `group` names the members, `kip848` those of them to whom the broker assigns."""
    eras = _Eras(history)
    is_mixed = bool(kip848) and not group <= set(kip848)
    commits = _commits(history, eras, is_mixed=is_mixed)
    return [
        *_one_owner(history, eras, is_mixed=is_mixed),
        *_released(history, eras, kip848),
        *_fenced(history, eras, is_classic=not kip848, is_mixed=is_mixed),
        *_kept(history, eras, commits),
        *_complete(history, group),
    ]


class _Eras:
    """Times after losses of the group's rows that nobody promised against."""

    def __init__(self, history: History) -> None:
        self._starts: list[float] = []
        for opened in history.of(Reopened):
            if self._starts or _lost_unpromised_rows(opened):
                self._starts.append(opened.at)

    def at(self, moment: float) -> int:
        return sum(start <= moment for start in self._starts)


def _lost_unpromised_rows(opened: Reopened) -> bool:
    return opened.power_was_cut and any(
        before.topic == OFFSETS_TOPIC
        and not before.synced_answers
        and (place not in opened.after or opened.after[place].end < before.end)
        for place, before in opened.before.items()
    )


def _one_owner(history: History, eras: _Eras, *, is_mixed: bool) -> Iterator[Broken]:
    owners: dict[tuple[int, int, TopicPartition], str] = {}
    last_heard: dict[tuple[str, int, TopicPartition], float] = {
        (owned.owner, owned.generation_id, partition): owned.since
        for owned in history.of(Owned)
        for partition in owned.partitions
    }
    for owned in history.of(Owned):
        for partition in owned.partitions:
            key = (eras.at(owned.since), owned.generation_id, partition)
            owner = owners.setdefault(key, owned.owner)
            if owner == owned.owner:
                continue
            if is_mixed and last_heard[owner, owned.generation_id, partition] < owned.at:
                owners[key] = owned.owner  # The group may have been founded anew in between.
            else:
                yield Broken(
                    f"{partition} belongs to {owner} and to {owned.owner} in generation {owned.generation_id}",
                    partition.topic,
                    owned.at,
                )


def _released(history: History, eras: _Eras, kip848: Collection[str]) -> Iterator[Broken]:
    """Between two heartbeats that were answered well, a member had what it said after the first."""
    before: dict[str, Owned] = {}
    spans: list[tuple[Owned, Owned]] = []
    for owned in history.of(Owned):
        if owned.member.rpartition(".")[0] in kip848:
            last = before.get(owned.member)
            if last is not None and last.partitions and owned.generation_id >= 0:
                spans.append((last, owned))
            before[owned.member] = owned
    for last, next_one in spans:
        for other in history.of(Owned):
            if (
                last.at < other.since  # An event told late may be of an earlier time.
                and other.at < next_one.since
                and other.owner != last.owner
                and eras.at(last.since) == eras.at(other.since) == eras.at(next_one.since)
            ):
                for partition in set(last.partitions) & set(other.partitions):
                    yield Broken(
                        f"{partition} came to {other.owner} in epoch {other.generation_id} while {last.owner}, a member "
                        f"in epoch {last.generation_id}, still had it",
                        partition.topic,
                        other.at,
                    )


def _fenced(history: History, eras: _Eras, *, is_classic: bool, is_mixed: bool) -> Iterator[Broken]:
    sent = {one.commit: one for one in history.of(CommitAsked)}
    entered = list(history.of(Owned))
    for answer in history.of(CommitAnswered):
        commit = sent[answer.commit]
        if answer.code != "NONE":
            continue
        since = _entered_at(entered, commit) if is_mixed else 0.0
        for owned in entered:
            if (
                since <= owned.at < commit.at
                and owned.generation_id > commit.generation_id
                and eras.at(owned.since) == eras.at(commit.at)
                and (
                    is_classic
                    or (
                        owned.member != commit.member
                        and not commit.offsets.keys().isdisjoint(owned.partitions)
                    )
                )
            ):
                yield Broken(
                    f"commit {commit.commit} of {commit.member} in generation {commit.generation_id} was stored after "
                    f"{owned.owner} had entered generation {owned.generation_id}",
                    next(iter(commit.offsets)).topic,
                    answer.at,
                )
                break


def _entered_at(entered: Sequence[Owned], commit: CommitAsked) -> float:
    """When the member was last heard to be in the generation it commits in."""
    return max(
        (
            owned.at
            for owned in entered
            if (owned.member, owned.generation_id) == (commit.member, commit.generation_id)
            and owned.at <= commit.at
        ),
        default=0.0,
    )


def _commits(history: History, eras: _Eras, *, is_mixed: bool) -> dict[TopicPartition, list[_Commit]]:
    answers = {one.commit: one for one in history.of(CommitAnswered)}
    commits: dict[TopicPartition, list[_Commit]] = {}
    for sent in history.of(CommitAsked):
        answer = answers.get(sent.commit)
        for partition, offset in sent.offsets.items():
            commits.setdefault(partition, []).append(
                _Commit(
                    eras.at(sent.at),
                    0 if is_mixed else sent.generation_id,
                    sent.commit,
                    sent.member,
                    offset,
                    sent.at,
                    None if answer is None else answer.at,
                    None if answer is None else answer.code,
                )
            )
    return commits


def _kept(history: History, eras: _Eras, commits: dict[TopicPartition, list[_Commit]]) -> Iterator[Broken]:
    for seen in history.of(CommittedSeen):
        era = eras.at(seen.since)
        for partition, offset in seen.offsets.items():
            of_partition = commits.get(partition, [])
            stored = [
                one
                for one in of_partition
                if one.is_stored and one.answered_at is not None and one.answered_at <= seen.since
            ]
            last = max(stored, key=lambda one: one.order, default=None)
            possible = {
                one.offset
                for one in of_partition
                if (one.is_stored or one.is_unsure)
                and one.sent_at <= seen.at
                and _may_be_last(one, last, era)
            }
            if last is None or last.era < era:
                possible.add(_NOTHING)
            if offset not in possible:
                yield Broken(
                    f"{seen.who} is told that {partition} is committed up to {offset}; it can be one of "
                    f"{sorted(possible)}, the last stored before was {last}",
                    partition.topic,
                    seen.at,
                )


def _may_be_last(one: _Commit, last: _Commit | None, era: int) -> bool:
    if last is None or last.era < era:
        return True  # After a loss that was not promised against, anything that was stored before.
    if one.order >= last.order:
        return True
    # An unsure commit may arrive late, on a connection its member has given up, while the member lasts.
    return one.is_unsure and (one.era, one.member) == (last.era, last.member)


def _complete(history: History, group: set[str]) -> Iterator[Broken]:
    processed: dict[tuple[str, int], set[int]] = {}
    for read in history.of(Read):
        if read.reader.rpartition(".")[0] in group:
            processed.setdefault((read.topic, read.partition), set()).update(
                offset for offset, _ in read.records
            )
    for place, (state, _batches) in history.logs.items():
        missing = set(range(state.start, state.end)) - processed.get((state.topic, place.partition), set())
        if missing:
            yield Broken(
                f"{state.topic}-{place.partition}: nobody processed the offsets {sorted(missing)[:10]} of "
                f"[{state.start}, {state.end})",
                state.topic,
            )

"""One partition this broker leads: what is appended, how far it is visible, who waits for it.

Role.   The shell of `core.replication.leading` for one log. It lasts as long as this broker leads without interruption; a new
        leader epoch of the same leader goes on with it.
Flow.   Handlers and coordinators append. `settled` says whether that is visible already. If not, `acknowledged` waits for it as
        acks=all does, up to the request's time, and `settle` without an end. A follower's fetch ends in `fetched`.
Rules.  * Visible is what is durable and replicated. Durable (`durable_offset`): in the page cache, or, with `flush.messages`, on
          disk. Replicated: on every replica of the maximal ISR.
        * One task syncs for all who wait, and for nobody too: what was appended becomes visible though its producer has left.
        * Where there is one replica, and no sync is asked for, an append is visible when it returns: no task, no waiter.
        * A waiter is a request that is being handled, so there are at most `in_flight_max` of a connection. It is taken out when
          its time is over. The record stays.
        * When the role ends every waiter is told, and nothing is appended any more.
        * A proposal of another ISR is sent once. If the controller's answer is no decision, it is sent again after a pause.
"""

import asyncio
import uuid
from collections.abc import Iterable
from typing import Final

from semel.broker.metrics.counts import PartitionCounts
from semel.broker.replicas.surroundings import Surroundings
from semel.broker.waiting import Waiters
from semel.core.cluster import fencing
from semel.core.records.validation import Inspection
from semel.core.replication.epochs import EpochEnd, led_epoch_end
from semel.core.replication.leading import Altered, Granted, Leading, Proposal
from semel.errors import ErrorCode, LogError, Refuse
from semel.log.group_commit import GroupCommit
from semel.log.partition_log import Appended, AppendResult, PartitionLog
from semel.runtime.bundle import Runtime

ACKS_ALL: Final = -1
_PROPOSE_AGAIN_SECONDS: Final = 0.1


class LedPartition:
    """One partition, led here."""

    __slots__ = (
        "_acknowledgements",
        "_alive",
        "_deletions",
        "_ended",
        "_is_alone",
        "_monotonic_ms",
        "_now_ms",
        "_replication",
        "_settling",
        "_tasks",
        "commits",
        "counts",
        "durable_offset",
        "end_waiters",
        "leader_epoch",
        "leading",
        "log",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        log: PartitionLog,
        topic_id: uuid.UUID,
        commits: GroupCommit,
        counts: PartitionCounts,
        runtime: Runtime,
        surroundings: Surroundings,
    ) -> None:
        self.log = log
        self.topic_id = topic_id
        self.commits = commits
        self.counts = counts
        self.leading = Leading(surroundings.node_id, lag_max_ms=surroundings.lag_max_ms)
        self.leader_epoch = self.leading.leader_epoch  # The same, where every append finds it.
        self.durable_offset = log.log_end_offset
        self.waiters = Waiters()
        """Long polls of consumers: they wait for the high watermark."""
        self.end_waiters = Waiters()
        """Long polls of followers: they wait for the log's end."""
        self._acknowledgements: dict[asyncio.Future[ErrorCode], int] = {}
        self._deletions: dict[asyncio.Future[ErrorCode], int] = {}
        self._alive = surroundings.alive
        self._replication = surroundings.replication
        self._ended = ErrorCode.NONE
        self._is_alone = True  # This broker's is the only replica, and leads.
        self._tasks = runtime.tasks
        self._now_ms = runtime.clock.now_ms
        self._monotonic_ms = runtime.clock.monotonic_ms
        self._settling: asyncio.Task[None] | None = None

    # The role

    def become(
        self, *, leader_epoch: int, partition_epoch: int, replicas: Iterable[int], isr: Iterable[int]
    ) -> None:
        """Lead in this epoch, with these replicas."""
        log, leading = self.log, self.leading
        is_news = leading.become(
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=replicas,
            isr=isr,
            log_end_offset=log.log_end_offset,
            now_ms=self._monotonic_ms(),
        )
        if not is_news:
            return
        self._is_alone = not leading.followers
        if leading.followers and leading.leader_epoch != self.leader_epoch:
            # Now, not with the first append: a follower may ask about it before there is one.
            log.leader_epochs.assign(leading.leader_epoch, log.log_end_offset)
        self.leader_epoch = leading.leader_epoch
        self._show()

    def end(self, code: ErrorCode) -> None:
        """Lead no more; who waits is told `code`, and so is who comes too late."""
        self._ended = code
        self._is_alone = False
        if self._replication is not None:
            self._replication.lead_no_more(self)
        for future in (*self._acknowledgements, *self._deletions):
            if not future.done():
                future.set_result(code)
        self.waiters.wake()
        self.end_waiters.wake()

    # Appending

    def append(
        self,
        data: bytearray | memoryview,
        *,
        acks: int = ACKS_ALL,
        transactions_v2: bool = False,
        from_client: bool = True,
        verification_token: int | None = None,
        inspection: Inspection | None = None,
    ) -> AppendResult:
        """Take a client's batch, or a coordinator's. Where it is not `settled`, the answer may have to wait."""
        if not self._is_alone and (refused := self._refusal(acks)) is not None:
            return refused
        log = self.log
        now_ms = self._now_ms()
        result = log.append(
            data,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            transactions_v2=transactions_v2,
            verification_token=verification_token,
            inspection=inspection,
        )
        if type(result) is Appended:
            counts = self.counts
            counts.batches_in += 1
            counts.bytes_in += len(data)
            self._appended(now_ms)
        return result

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> Appended | Refuse:
        """End a producer's transaction here. As after `append`, the answer may have to wait."""
        if not self._is_alone and (refused := self._refusal(ACKS_ALL)) is not None:
            return refused
        now_ms = self._now_ms()
        result = self.log.append_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        if type(result) is Appended:
            self._appended(now_ms)
        return result

    def _refusal(self, acks: int) -> Refuse | None:
        """Why nothing may be appended now, whatever it is."""
        partition = self.log.topic_partition
        if self._ended:
            return Refuse(self._ended, f"{partition} is no longer led here")
        least = self.log.config.min_insync_replicas
        if acks == ACKS_ALL and (code := self.leading.judge_append(least)):
            members = sorted(self.leading.isr)
            return Refuse(code, f"{partition}: in sync are {members}, min.insync.replicas={least}")
        return None

    def _appended(self, now_ms: int) -> None:
        log = self.log
        if log.flush_due(now_ms):
            self._settle_soon()
        else:
            self.durable_offset = end_offset = log.log_end_offset
            if not self._is_alone:
                self._show()
            elif log.advance_high_watermark(end_offset) and (self.waiters or self._acknowledgements):
                self._tell()
        if not self._is_alone:
            self.end_waiters.wake()

    # Visible

    @property
    def is_settled_at_once(self) -> bool:
        """Whether an append is visible when it returns, as long as settings and replicas stay what they are."""
        return self._is_alone and not self.log.config.flushes

    @property
    def settled(self) -> bool:
        """Whether everything appended is visible, so that answers need not wait."""
        return self.log.high_watermark == self.log.log_end_offset

    def _show(self) -> None:
        """Move the high watermark as far as it may."""
        log = self.log
        offset = self.leading.replicated_offset(
            self.durable_offset,
            log_end_offset=log.log_end_offset,
            now_ms=self._monotonic_ms(),
            min_insync=log.config.min_insync_replicas,
            alive=self._alive,
        )
        if offset is not None and log.advance_high_watermark(offset):
            self._tell()

    def _tell(self) -> None:
        """The high watermark has moved."""
        self.waiters.wake()
        high_watermark = self.log.high_watermark
        for future, end_offset in self._acknowledgements.items():
            if end_offset <= high_watermark and not future.done():
                future.set_result(ErrorCode.NONE)

    async def acknowledged(self, end_offset: int, seconds: float) -> ErrorCode:
        """Wait, for so long, until everything below is visible: what to answer with acks=all. Raises as `settle` does."""
        if self.log.high_watermark < end_offset:
            try:
                async with asyncio.timeout(seconds):
                    code = await self._visible(end_offset)
            except TimeoutError:
                return ErrorCode.REQUEST_TIMED_OUT
            if code:
                return code
        return self.leading.judge_replicated(self.log.config.min_insync_replicas)

    async def settle(self, end_offset: int) -> None:
        """Wait until everything below is visible; raises `LogError` if that will never be, or not here."""
        if self.log.high_watermark < end_offset and await self._visible(end_offset):
            raise LogError(f"{self.log.topic_partition} is no longer led here")

    async def _visible(self, end_offset: int) -> ErrorCode:
        if self._ended:
            return self._ended
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._acknowledgements[future] = end_offset
        self._settle_soon()
        try:
            return await future
        finally:
            del self._acknowledgements[future]

    def _settle_soon(self) -> None:
        """Have everything synced that is to be, by one task for all."""
        if self._settling is None and self.durable_offset < self.log.log_end_offset:
            self._settling = self._tasks.spawn(self._settle(), name=f"settle {self.log.topic_partition}")

    async def _settle(self) -> None:
        log = self.log
        try:
            while not self._ended and self.durable_offset < log.log_end_offset:
                await self.commits.flush()
                if not self._ended:
                    self.durable_offset = max(self.durable_offset, log.recovery_point)
                    self._show()
        except LogError as error:
            self._refuse(error)
        except Exception as error:
            self._refuse(LogError(f"{log.topic_partition}: this broker failed at a sync: {error!r}"))
            raise
        finally:
            self._settling = None

    def _refuse(self, error: LogError) -> None:
        for future in self._acknowledgements:
            if not future.done():
                future.set_exception(error)

    # Replicas and leader epochs

    def fetched(
        self, replica_id: int, fetch_offset: int, *, log_start_offset: int, broker_epoch: int
    ) -> ErrorCode:
        """A follower has everything below `fetch_offset`."""
        code = self.leading.fetched(
            replica_id,
            fetch_offset,
            log_start_offset=log_start_offset,
            log_end_offset=self.log.log_end_offset,
            now_ms=self._monotonic_ms(),
            broker_epoch=broker_epoch,
            alive=self._alive,
        )
        if not code:
            self._propose(
                self.leading.expand(replica_id, high_watermark=self.log.high_watermark, alive=self._alive)
            )
            self._show()
            if self._deletions:
                self._tell_deletions()
        return code

    def look(self) -> None:
        """Time has passed, or other brokers are there: members may have fallen behind, and nobody may hold the rest back."""
        self._propose(
            self.leading.shrink(log_end_offset=self.log.log_end_offset, now_ms=self._monotonic_ms())
        )
        self._show()
        self._tell_deletions()

    def brokers_changed(self) -> None:
        """Other brokers are alive than before."""
        self.leading.brokers_changed()
        self._show()
        self._tell_deletions()

    def _propose(self, proposal: Proposal | None) -> None:
        if proposal is not None and self._replication is not None:
            self._replication.propose(self, proposal)

    def altered(self, proposal: Proposal, answer: Granted | ErrorCode) -> None:
        """The controller has answered a proposal."""
        match self.leading.altered(proposal, answer):
            case Altered.COMMITTED:
                self.counts.isr_expands += proposal.joining is not None
                self.counts.isr_shrinks += proposal.joining is None
                self._show()
            case Altered.REVERTED:
                self._show()
            case Altered.AGAIN:
                self._tasks.spawn(
                    self._propose_again(proposal), name=f"propose again {self.log.topic_partition}"
                )
            case Altered.WAITING | Altered.LATE:
                pass

    async def _propose_again(self, proposal: Proposal) -> None:
        await self._tasks.sleep(_PROPOSE_AGAIN_SECONDS)
        if self.leading.proposal is proposal and not self._ended:
            self._propose(proposal)

    @property
    def low_watermark(self) -> int:
        """Below it, every living replica has deleted its records."""
        return self.leading.low_watermark(self.log.log_start_offset, self._alive)

    async def deleted(self, offset: int, seconds: float) -> ErrorCode:
        """Wait, for so long, until the log of every living replica begins at `offset` or later."""
        if self.low_watermark >= offset:
            return ErrorCode.NONE
        if self._ended:
            return self._ended
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._deletions[future] = offset
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        finally:
            del self._deletions[future]

    def _tell_deletions(self) -> None:
        if self._deletions:
            low_watermark = self.low_watermark
            for future, offset in self._deletions.items():
                if offset <= low_watermark and not future.done():
                    future.set_result(ErrorCode.NONE)

    def epoch_for(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or will."""
        if offset >= self.log.log_end_offset:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_for(offset)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended. This leader's own begins with it, though it is noted at its first append."""
        log = self.log
        return led_epoch_end(log.leader_epochs.entries, epoch, log.log_end_offset, self.leader_epoch)

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """The answer to a client that believes in this leader epoch (-1: in none)."""
        return fencing.leader_epoch(epoch, self.leader_epoch)

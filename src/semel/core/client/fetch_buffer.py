"""Records a consumer has fetched and not handed out yet: in order, and bounded.

Role.   `FetchBuffer` keeps the chunks of all partitions as they arrived, says what may be fetched next, and hands out records.
Flow.   the fetcher: `wants` -> an answer -> `add`. A poll: `take`.
Rules.  * The consumer fetches ahead until `fetch.max.bytes` are buffered. Each partition is fetched until its share of
          that is buffered, at least two times `max.partition.fetch.bytes`. A response in flight may exceed either
          bound.
        * Records of one partition are handed out in order, partitions in the order they arrived. Records of a paused
          partition stay buffered; those of a revoked or re-sought partition are dropped.
        * An error in a chunk is raised once all records before it are handed out, and again until the user seeks past
          it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from semel.core.client.fetched import DAMAGE, Chunk, Decoding, Piece, end_of
from semel.core.client.subscription import PartitionState, Subscription
from semel.errors import CorruptBatchError
from semel.types import BytesLike, TopicPartition


class DamagedRecordsError(Exception):
    """A batch of a partition cannot be read; the consumer's position is in front of it."""

    def __init__(self, where: TopicPartition, position: int, cause: Exception) -> None:
        self.where = where
        self.position = position
        super().__init__(f"{where} from offset {position} on: {cause}")


class Wants(NamedTuple):
    """Partitions to fetch, and fetchable partitions with enough buffered."""

    wanted: dict[TopicPartition, PartitionState]
    full: list[TopicPartition]


class FetchBuffer:
    """The fetch buffer of one consumer."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        fetch_max_bytes: int,
        max_partition_fetch_bytes: int,
        check_crcs: bool,
    ) -> None:
        self._subscription = subscription
        self._fetch_max_bytes = fetch_max_bytes
        self._max_partition_fetch_bytes = max_partition_fetch_bytes
        self._check_crcs = check_crcs
        self._chunks: list[Chunk] = []
        self._last_taken: dict[TopicPartition, Chunk] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes fetched and not handed out."""
        return sum(chunk.size_bytes for chunk in self._chunks)

    # From the fetcher

    def wants(self) -> "Wants":
        """Partitions to fetch now, and partitions with enough buffered."""
        self._throw_away()
        fetchable = {
            where: state for where, state in self._subscription.partitions.items() if state.is_fetchable
        }
        if self.size_bytes >= self._fetch_max_bytes:
            return Wants({}, list(fetchable))
        share = max(2 * self._max_partition_fetch_bytes, self._fetch_max_bytes // max(1, len(fetchable)))
        wanted = {where: state for where, state in fetchable.items() if state.buffered_bytes < share}
        return Wants(wanted, [where for where in fetchable if where not in wanted])

    def add(
        self,
        where: TopicPartition,
        turn: int,
        fetch_offset: int,
        data: BytesLike,
        aborted: list[tuple[int, int]] | None,
    ) -> None:
        """Add records fetched from an offset in a turn; an outdated turn or a repeated offset is ignored."""
        state = self._subscription.partitions.get(where)
        if state is None or state.turn != turn or state.fetch_offset != fetch_offset or not len(data):
            return
        chunk = Chunk(where, turn, data, fetch_offset, aborted=aborted, check_crcs=self._check_crcs)
        self._chunks.append(chunk)
        state.buffered_bytes += chunk.size_bytes
        end = end_of(data)
        # Without a whole batch there is no next offset; reading the chunk raises the error.
        state.fetch_offset = fetch_offset if end is None else max(end, fetch_offset)

    # From the user

    def take(self, count_max: int | None, *, decoding: Decoding) -> list[Piece]:
        """The next records, at most so many; positions move behind them. Raises `DamagedRecordsError`."""
        self._throw_away()
        pieces: list[Piece] = []
        waiting: set[TopicPartition] = set()
        left = count_max
        for chunk in list(self._chunks):
            state = self._subscription.partitions[chunk.where]
            if not state.is_fetchable or chunk.where in waiting:
                continue
            if not chunk.is_ready(decoding):
                waiting.add(chunk.where)
                continue
            while left is None or left > 0:
                try:
                    piece = self._take_from(chunk, state, left, decoding)
                except DamagedRecordsError:
                    if pieces:
                        return pieces
                    raise
                if piece is None:
                    break
                if piece.count:
                    pieces.append(piece)
                    if left is not None:
                        left -= piece.count
                else:
                    _extend(pieces, piece)
            if left == 0:
                break
        return pieces

    def give_back(self, pieces: Iterable[Piece]) -> None:
        """Take back pieces the user did not consume, in their order per partition; positions move before them."""
        for piece in reversed(list(pieces)):
            state = self._subscription.partitions.get(piece.where)
            chunk = self._last_taken.get(piece.where)
            if state is None or chunk is None or chunk.turn < state.sought_in or not piece.count:
                continue
            if chunk.turn != state.turn:  # The leader changed, or its log was truncated: fetch again.
                self._subscription.go_back(piece.where, piece.offset_at(0))
                continue
            chunk.give_back(piece)
            if chunk not in self._chunks:
                self._chunks.insert(0, chunk)
                state.buffered_bytes += chunk.size_bytes
            state.position = piece.offset_at(0)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what was fetched of these."""
        gone = set(partitions)
        self._chunks = [chunk for chunk in self._chunks if chunk.where not in gone]
        for where in gone:
            self._last_taken.pop(where, None)

    def _take_from(
        self, chunk: Chunk, state: PartitionState, count_max: int | None, decoding: Decoding
    ) -> Piece | None:
        position = state.position or 0
        try:
            piece = chunk.take(count_max, decoding)
        except DAMAGE as damage:
            raise DamagedRecordsError(chunk.where, position, damage) from damage
        if piece is None:
            if chunk.is_unreadable:
                cause = CorruptBatchError(
                    f"{chunk.size_bytes} bytes hold no whole batch", base_offset=position
                )
                raise DamagedRecordsError(chunk.where, position, cause)
            self._chunks.remove(chunk)
            state.buffered_bytes -= chunk.size_bytes
            return None
        self._last_taken[chunk.where] = chunk
        self._subscription.consumed(chunk.where, piece.next_offset, piece.last_leader_epoch)
        return piece

    def _throw_away(self) -> None:
        """Drop chunks of partitions that are gone, or that were fetched before a seek."""
        partitions = self._subscription.partitions

        def is_current(chunk: Chunk) -> bool:
            state = partitions.get(chunk.where)
            return state is not None and state.turn == chunk.turn

        if not all(map(is_current, self._chunks)):
            self._chunks = [chunk for chunk in self._chunks if is_current(chunk)]


def _extend(pieces: list[Piece], hidden: Piece) -> None:
    """Add hidden offsets to the partition's last visible piece: giving that piece back gives them back too."""
    for piece in reversed(pieces):
        if piece.where == hidden.where:
            piece.next_offset = hidden.next_offset
            piece.spans += hidden.spans
            return

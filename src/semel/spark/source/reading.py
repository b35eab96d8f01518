"""A reading task: ranges of offsets become batches of rows, straight from the kernels.

Role.   `read_ranges` yields `pyarrow.RecordBatch`es of a task's ranges, in order.
Flow.   One fetch for all ranges of a task if there are several. Then, range by range: fetch -> a chunk of bytes -> the kernels'
        columns, cut at the end of the range -> rows (`columns`) -> batches of up to `batchRows` rows and about `batchBytes` bytes
        -> Spark. While one chunk is decoded and sent on, the next is being fetched.
Rules.  * A task holds at most three fetches, the decoded part of one, and the rows of one batch: memory does not grow with the
          range. A fetch has `kafka.max.partition.fetch.bytes`, or one record batch if that is larger. The third fetch is the one
          for all of its ranges.
        * Nothing is done per record in Python, but for the first few before the kernels are loaded.
        * An offset that is gone is an error, or with `failOnDataLoss` false is passed over with a warning, as far as the first one
          there is. Offsets without a record (markers, aborted or compacted records) are no loss.
        * An offset the partition says it has is not gone, however often a fetch says so: it is asked for until `kafkaConsumer.pollTimeoutMs`.
"""

import concurrent.futures
import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from semel.client.consumer.decoding import decoding_now, load_decoding
from semel.core.client.fetched import PLAIN_BYTES_MAX, Chunk, Decoding, Piece, end_of
from semel.errors import ErrorCode, RefusedError
from semel.exceptions import TimeoutException
from semel.spark.source.broker_client import UNKNOWN_TOPIC, Asked, BrokerClient, Fetched, client_for
from semel.spark.source.columns import RowMaker, combined
from semel.spark.source.offsets import EARLIEST_OFFSET, LATEST_OFFSET
from semel.spark.source.options import SourceOptions
from semel.spark.source.ranges import OffsetRange, lost

_logger = logging.getLogger(__name__)

TOGETHER_MAX: Final = 256
"""Partitions in one fetch."""
_TURN: Final = 0
_BYTES_PER_OFFSET: Final = 2048.0
_SPARE: Final = 1.25
_FETCH_BYTES_MIN: Final = 64 * 1024


def read_ranges(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of these ranges, in batches that are worth a call."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _rows_of(ranges, options):
        more_rows, more_bytes = batch.num_rows, batch.nbytes
        if held and (rows + more_rows > options.batch_rows or size + more_bytes > options.batch_bytes):
            yield _taken(held)
            rows = size = 0
        held.append(batch)
        rows += more_rows
        size += more_bytes
        # The next one is likely to be as large: where it would not fit, nothing is held while it is fetched and decoded.
        if rows + more_rows > options.batch_rows or size + more_bytes > options.batch_bytes:
            yield _taken(held)
            rows = size = 0
    if held:
        yield _taken(held)


def _taken(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows held, as one batch; nothing is held any more while that one is on its way."""
    whole = combined(held)
    held.clear()
    return whole


def _rows_of(ranges: Sequence[OffsetRange], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Rows as they come. Several ranges begin with one fetch for all of them, and go on alone where that did not bring the whole."""
    client = client_for(options.client)
    for start in range(0, len(ranges), TOGETHER_MAX):
        readers = [_RangeReader(client, one, options) for one in ranges[start : start + TOGETHER_MAX]]
        first = client.fetch_together([one.asked() for one in readers]) if len(readers) > 1 else {}
        for one in readers:
            yield from one.rows(first.pop(one.where, None))


class _RangeReader:
    """Reads one range of one partition."""

    def __init__(self, client: BrokerClient, wanted: OffsetRange, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self.where = wanted.where
        self._offset = wanted.start
        self._end = wanted.end
        self._first: Fetched | None = None
        self._under_way: concurrent.futures.Future[Fetched] | None = None
        self._bytes_per_offset = _BYTES_PER_OFFSET
        """A guess at first, then as in the last fetch."""
        self._fruitless = 0
        """Answers in a row that said the offset is not there."""
        self._progress_at = time.monotonic()

    def asked(self) -> Asked:
        """The fetch of what is left, but not of much that lies behind it."""
        bytes_left = int((self._end - self._offset) * self._bytes_per_offset * _SPARE)
        bytes_max = self._client.config.max_partition_fetch_bytes
        return Asked(self.where, self._offset, min(max(bytes_left, _FETCH_BYTES_MIN), bytes_max))

    def rows(self, first: Fetched | None = None) -> Iterator[pa.RecordBatch]:
        """Rows as they come, none of it larger than a batch; `first` is what `asked` brought, if it was asked already."""
        self._first, self._progress_at = first, time.monotonic()
        options = self._options
        maker = RowMaker(self.where, include_headers=options.include_headers)
        for piece in self._pieces():
            left: Piece | None = piece
            while left is not None:
                part, left = (
                    left.split(options.batch_rows) if left.count > options.batch_rows else (left, None)
                )
                rows = maker.rows_of(part)
                step = rows.num_rows
                if rows.nbytes > options.batch_bytes:
                    step = max(1, step * options.batch_bytes // rows.nbytes)
                for start in range(0, rows.num_rows, step):
                    yield rows.slice(start, step)

    def _pieces(self) -> Iterator[Piece]:
        """The records of the range, as they come."""
        try:
            while self._offset < self._end:
                got = self._next()
                if got is None:
                    continue
                fetch_offset = self._offset
                following = end_of(got.data)
                if following is None or following <= fetch_offset:
                    self._wait(got)
                    continue
                self._fruitless, self._progress_at = 0, time.monotonic()
                self._offset = following
                self._bytes_per_offset = len(got.data) / (following - fetch_offset)
                if following < self._end:
                    self._start_fetch()
                yield from self._decoded(fetch_offset, got)
        finally:
            if self._under_way is not None:
                self._under_way.cancel()

    def _decoded(self, fetch_offset: int, got: Fetched) -> Iterator[Piece]:
        chunk = Chunk(
            self.where,
            _TURN,
            got.data,
            fetch_offset,
            aborted=got.aborted,
            check_crcs=self._client.config.check_crcs,
            decode_max_bytes=self._options.batch_bytes,
        )
        while (piece := chunk.take(None, _kernels.decoding(chunk.size_bytes))) is not None:
            inside = self._inside(piece)
            if inside.count:
                yield inside
            if piece.next_offset >= self._end:
                return

    def _inside(self, piece: Piece) -> Piece:
        """Without the rows behind the end of the range."""
        if not piece.count or piece.offset_at(piece.count - 1) < self._end:
            return piece
        return piece.split(bisect_left(range(piece.count), self._end, key=piece.offset_at))[0]

    # Fetches

    def _start_fetch(self) -> None:
        self._under_way = self._client.start_fetch(self.asked(), patience_ms=self._options.poll_timeout_ms)

    def _next(self) -> Fetched | None:
        """The fetch from the offset at which reading stands; None if it stands elsewhere now."""
        first, self._first = self._first, None
        if first is not None:
            return first
        if self._under_way is None:
            self._start_fetch()
        under_way, self._under_way = self._under_way, None
        if under_way is None:  # For the type checker: it was started above.
            return None
        try:
            return self._client.fetched(under_way)
        except RefusedError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE and error.code not in UNKNOWN_TOPIC:
                raise
            self._missing(error)
            return None

    def _wait(self, got: Fetched) -> None:
        """Nothing came: the broker needs more time, or there is nothing at this offset."""
        if got.end_offset <= self._offset:
            self._missing(None)
        else:
            self._check_patience()

    def _check_patience(self) -> None:
        if time.monotonic() - self._progress_at > self._options.poll_timeout_ms / 1000:
            raise TimeoutException(
                f"{self.where} gave nothing from offset {self._offset} on within kafkaConsumer.pollTimeoutMs="
                f"{self._options.poll_timeout_ms}"
            )

    # Losses

    def _missing(self, error: RefusedError | None) -> None:
        """The offset is not there. A leader that has just been elected may not know it yet: look again before believing it."""
        options = self._options
        self._check_patience()
        self._fruitless += 1
        if self._fruitless % options.fetch_offset_num_retries:
            time.sleep(options.fetch_offset_retry_interval_ms / 1000)
            return
        begin, end = self._limits()
        if (
            begin <= self._offset < end
        ):  # It is there: the broker that was asked for records did not know it yet.
            time.sleep(options.fetch_offset_retry_interval_ms / 1000)
            return
        if options.fail_on_data_loss:
            ends = f"it has [{begin}, {end})" if end >= 0 else "it does not exist"
            raise lost(
                f"{self.where} cannot be read from offset {self._offset} to {self._end}: {ends}"
            ) from error
        goes_on = self._end if self._offset >= end else min(max(begin, self._offset), self._end)
        _logger.warning(
            "%s: offsets %d to %d are gone and passed over, for failOnDataLoss is false",
            self.where,
            self._offset,
            goes_on,
        )
        self._offset = goes_on

    def _limits(self) -> tuple[int, int]:
        """Where the partition begins and ends; nowhere, if it is gone."""
        try:
            begin = self._client.offsets({self.where: EARLIEST_OFFSET})[self.where]
            end = self._client.offsets({self.where: LATEST_OFFSET})[self.where]
        except RefusedError as error:
            if error.code not in UNKNOWN_TOPIC:
                raise
            return -1, -1
        return begin, end


class _Kernels:
    """The kernels of this process: loaded beside the first records, which are read without them while they are few."""

    def __init__(self) -> None:
        self._loading: threading.Thread | None = None

    def decoding(self, size_bytes: int) -> Decoding:
        """How to read so many bytes now."""
        if decoding_now() is not Decoding.PLAIN_WHILE_SMALL:
            return decoding_now()
        if self._loading is None:
            self._loading = threading.Thread(target=load_decoding, name="semel-kernels", daemon=True)
            self._loading.start()
        if size_bytes <= PLAIN_BYTES_MAX:
            return Decoding.PLAIN
        self._loading.join()
        return decoding_now()


_kernels: Final = _Kernels()

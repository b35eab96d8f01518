"""The cost of judging and recording a producer's batches, relative to the whole request.

Role.   Whole requests vary more from run to run than idempotence costs, so what an idempotent batch adds is timed alone,
        over many batches, beside the CPU of whole requests as the broker process spent it.
Rules.  The calls are those of `log.partition_log`, with its arguments: a change there belongs here too.
"""

import gc
import time
from typing import Final

from semel.bench.broker_load import records_of
from semel.bench.measure import BenchError
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append
from semel.core.records import batch
from semel.log.producers import record_batch

_BATCHES: Final = 20_000
_SLICE: Final = 500


def judge_and_record_seconds(batches: int = _BATCHES) -> list[float]:
    """CPU seconds per batch, one figure for every `_SLICE` batches of a producer that is known."""
    header = batch.read_header(records_of(100, count=1))._replace(producer_id=1, producer_epoch=0)
    headers = [header._replace(base_sequence=number, base_offset=number) for number in range(batches)]
    state = ProducerState()
    known, now_ms = state.producers, header.max_timestamp
    taken: list[float] = []
    gc.collect()
    for first in range(0, batches, _SLICE):
        piece = headers[first : first + _SLICE]
        start = time.thread_time()
        for one in piece:
            verdict = state.judge(one, by_coordinator=False, transactions_v2=False)
            if not isinstance(verdict, Append) or (one.base_sequence > 0 and one.producer_id not in known):
                raise BenchError(f"the batch of sequence {one.base_sequence} was judged {verdict}")
            record_batch(state, one, b"", None, now_ms)
        taken.append((time.thread_time() - start) / len(piece))
    return taken

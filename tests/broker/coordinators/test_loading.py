"""A coordinator's log that the cleaner has been through is loaded like any other.

Method: the log of a group with offsets committed in transactions, and a control batch whose marker is gone, as a cleaner leaves
it for the last batch of a segment and for the last trace of a producer.
"""

import random

from semel.bench.transaction_logs import TransactionLog
from semel.broker.coordinators.loading import Loading
from semel.core.groups.group import Groups
from semel.core.groups.rows import GROUP_ROW_TIMES, GROUP_ROWS
from semel.core.groups.shard import GroupShard
from semel.core.records.build import build_batch
from semel.runtime.memory_files import MemoryDisk
from support.groups.classic_kit import NoTopics
from support.log.log_kit import NOW, open_at


def test_a_control_batch_without_its_marker_is_passed_over() -> None:
    story = TransactionLog.of_offsets(10, "billing", "orders", aborts=lambda _number: False, now_ms=NOW)
    log = open_at(MemoryDisk(random.Random(0)))
    for piece in story.pieces():
        assert log.append_as_follower(piece, NOW) is None
    emptied = build_batch(
        [],
        base_offset=story.end_offset,
        control=True,
        transactional=True,
        producer_id=77,
        producer_epoch=3,
        partition_leader_epoch=0,
    )
    assert log.append_as_follower(emptied, NOW) is None
    log.advance_high_watermark(log.log_end_offset)
    shard = GroupShard(Groups(NoTopics()))
    loading = Loading(shard, log, GROUP_ROWS, GROUP_ROW_TIMES, 0)
    while not loading.step():
        pass
    found = shard.offsets.get("billing", "orders", 0)
    assert found is not None
    assert found.offset == 9

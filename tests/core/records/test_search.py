"""Records are found by time, and those a topic refuses are listed, by compiled loops as by plain Python.

Method: batches by property, with gaps as compaction leaves them, asked both ways; damaged bytes must be refused alike.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records import build, search, search_kernels
from semel.core.records.batch import BatchHeader, TimestampType, read_header
from semel.core.records.build import RecordInput, build_batch
from semel.errors import CorruptBatchError
from semel.types import BytesLike
from support.records.records_kit import CODECS, record_lists

pytestmark = pytest.mark.usefixtures("every_way")

moments = st.integers(-1, 1 << 42) | st.sampled_from([-1, 0, 1_700_000_000_000])


def section_of(data: bytearray) -> tuple[BytesLike, BatchHeader]:
    header = read_header(data)
    return build.records_section(data, 0, header), header


@given(records=record_lists, wanted=moments, delta_min=st.integers(0, 40), codec=st.sampled_from(CODECS))
def test_the_first_of_a_time(records: list[RecordInput], wanted: int, delta_min: int, codec: int) -> None:
    deltas = [index + index // 3 for index in range(len(records))]  # Every third place is empty.
    section, header = section_of(build_batch(records, compression=codec, offset_deltas=deltas))
    found = search_kernels.first_at_or_after(section, header, wanted, delta_min)
    assert found == search.first_at_or_after_in_python(section, header, wanted, delta_min)
    expected = (
        (delta, record.timestamp_ms)
        for delta, record in zip(deltas, records, strict=True)
        if record.timestamp_ms >= wanted and delta >= delta_min
    )
    assert found == next(expected, None)


@given(records=record_lists, wanted=moments, stamp=moments)
def test_a_batch_with_the_brokers_time_has_one_time(
    records: list[RecordInput], wanted: int, stamp: int
) -> None:
    data = build_batch(
        records, base_offset=10, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=stamp
    )
    header = read_header(data)
    for offset_min in (0, 10, 10 + len(records) - 1, 10 + len(records)):
        found = search.first_at_or_after(data, header, wanted, offset_min)
        is_there = stamp >= wanted and offset_min < 10 + len(records)
        assert found == ((stamp, max(10, offset_min)) if is_there else None)


@given(
    records=record_lists,
    keys_required=st.booleans(),
    bounds=st.tuples(moments, moments).map(sorted),
    count_max=st.integers(1, 5),
)
def test_those_a_topic_refuses(
    records: list[RecordInput], keys_required: bool, bounds: list[int], count_max: int
) -> None:
    section, header = section_of(build_batch(records))
    answers = [
        ask(
            section,
            header,
            keys_required=keys_required,
            timestamp_min=bounds[0],
            timestamp_max=bounds[1],
            count_max=count_max,
        )
        for ask in (search.outlaws_in_python, search_kernels.outlaws)
    ]
    assert answers[0] == answers[1]
    refused = [
        (index, record.timestamp_ms, keys_required and record.key is None)
        for index, record in enumerate(records)
        if (keys_required and record.key is None)
        or (record.timestamp_ms != -1 and not bounds[0] <= record.timestamp_ms <= bounds[1])
    ]
    listed, total, out_of_time = answers[0]
    assert listed == refused[:count_max]
    assert total == len(refused)
    assert out_of_time == sum(not keyless for _index, _time, keyless in refused)


def test_damage_is_refused_alike() -> None:
    dice = random.Random(3)
    section, header = section_of(build_batch([RecordInput(b"k", b"v" * 20, 1_000) for _ in range(20)]))
    refused = 0
    for _ in range(300):
        hurt = bytearray(section)
        hurt[dice.randrange(len(hurt))] = dice.randrange(256)
        outcomes = []
        for ask in (search.first_at_or_after_in_python, search_kernels.first_at_or_after):
            try:
                outcomes.append(str(ask(hurt, header, 1 << 50, 0)))
            except CorruptBatchError as error:
                outcomes.append(error.reason)
        assert outcomes[0] == outcomes[1]
        refused += outcomes[0] != "None"
    assert refused > 50


def test_kernels_take_the_place_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_first", search.first_at_or_after_in_python)
    monkeypatch.setattr(search, "outlaws", search.outlaws_in_python)
    search.load_kernels()
    assert search._first is search_kernels.first_at_or_after
    assert search.outlaws is search_kernels.outlaws

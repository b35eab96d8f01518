"""The size of idempotence on the wire and on disk: 14 bytes of every header, used or not, and no bytes per record.

Method: the same records with and without a producer, byte by byte.
"""

from struct import unpack_from

import pytest

from semel.core.records.batch import HEADER_SIZE
from support.log.log_kit import batch_of

VALUES = [b"a", b"bb", b"ccc"]


@pytest.mark.mission("IDEM-34", "R-05")
def test_producer_id_epoch_and_first_sequence_stand_in_the_header_and_nowhere_else() -> None:
    plain = batch_of(*VALUES)
    idempotent = batch_of(*VALUES, producer_id=77, epoch=5, sequence=1000)
    assert len(plain) == len(idempotent)
    assert unpack_from(">qhi", idempotent, 43) == (77, 5, 1000)
    assert unpack_from(">qhi", plain, 43) == (-1, -1, -1)
    differing = {index for index in range(len(plain)) if plain[index] != idempotent[index]}
    checksum, producer_fields = set(range(17, 21)), set(range(43, 57))
    assert differing <= checksum | producer_fields
    assert plain[HEADER_SIZE:] == idempotent[HEADER_SIZE:], "no sequence stands in the records"
    assert len(producer_fields) * 8 == 112


@pytest.mark.mission("IDEM-16", "R-42")
def test_the_sequence_begins_at_zero_and_rises_by_one_per_record() -> None:
    from semel.core.records.batch import headers
    from semel.core.records.build import iter_records
    from support.log.log_kit import content, disk, open_at, send

    log = open_at(disk())
    send(log, batch_of(*VALUES, producer_id=77, sequence=0))
    send(log, batch_of(*VALUES, producer_id=77, sequence=3))
    data = content(log)
    stored = list(headers(data))
    assert [header.base_sequence for _position, header in stored] == [0, 3]
    assert [r.sequence for position, header in stored for r in iter_records(data, position, header)] == list(
        range(6)
    )

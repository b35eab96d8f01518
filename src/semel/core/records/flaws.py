"""Flaws of a batch's records, as numbers a kernel returns and as messages.

Role.   Shared by the plain Python parser (`build`) and the compiled one (`kernels`), so that both report the same bytes
        alike.
Flow.   A parser that meets a flaw reports a `Finding`; `corrupt` turns it into the error that is raised.
Rules.  * A finding names the first flaw in reading order: the record, the byte of the (decompressed) records, and the
          invalid value.
        * The order of checks is part of the contract: tests compare the parsers on random bytes, and the findings must
          be equal, not only the refusals.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from semel.errors import CorruptBatchError

RECORD_BODY_MIN: Final = 6  # Attributes, two deltas, two lengths and a header count, one byte each.
RECORD_MIN: Final = RECORD_BODY_MIN + 1  # And one byte of length.
HEADER_MIN: Final = 2  # A header is at least two lengths.


class Flaw(IntEnum):
    """Why records are invalid. The numbers are shared with the kernels."""

    NONE = 0
    COUNT = 1
    RECORDS_MISSING = 2
    NUMBER_CUT = 3
    NUMBER_TOO_LARGE = 4
    RECORD_LENGTH = 5
    TIMESTAMP = 6
    OFFSET_DELTA = 7
    KEY_LENGTH = 8
    VALUE_LENGTH = 9
    HEADER_COUNT = 10
    HEADER_KEY_LENGTH = 11
    HEADER_VALUE_LENGTH = 12
    RECORD_REST = 13
    BATCH_REST = 14


_SENTENCES: Final = {
    Flaw.COUNT: "the header counts {value} records, which do not fit its offsets or its bytes",
    Flaw.RECORDS_MISSING: "the bytes end before it",
    Flaw.NUMBER_CUT: "a number runs past the end",
    Flaw.NUMBER_TOO_LARGE: "a number is longer than its type allows",
    Flaw.RECORD_LENGTH: f"length {{value}} is below {RECORD_BODY_MIN} or runs past the end of the batch",
    Flaw.TIMESTAMP: "timestamp delta {value} leaves 64 bits when added to the base timestamp",
    Flaw.OFFSET_DELTA: "offset delta {value} is not the next one",
    Flaw.KEY_LENGTH: "key length {value} is below -1 or runs past the end of the record",
    Flaw.VALUE_LENGTH: "value length {value} is below -1 or runs past the end of the record",
    Flaw.HEADER_COUNT: "header count {value} is negative or more than fit the record",
    Flaw.HEADER_KEY_LENGTH: "header key length {value} is negative or runs past the end of the record",
    Flaw.HEADER_VALUE_LENGTH: "header value length {value} is below -1 or runs past the end of the record",
    Flaw.RECORD_REST: "{value} bytes are left in it after its last field",
    Flaw.BATCH_REST: "{value} bytes are left after the last record",
}


class Finding(NamedTuple):
    """A flaw, the record it is in, the byte of the records section it begins at, and the offending value."""

    flaw: Flaw
    record: int = 0
    position: int = 0
    value: int = 0


def corrupt(finding: Finding, base_offset: int) -> CorruptBatchError:
    """The error for a finding."""
    sentence = _SENTENCES[finding.flaw].format(value=finding.value)
    if finding.flaw in (Flaw.COUNT, Flaw.BATCH_REST):
        return CorruptBatchError(sentence, base_offset=base_offset)
    return CorruptBatchError(
        f"record {finding.record}, byte {finding.position} of the records: {sentence}",
        base_offset=base_offset,
    )

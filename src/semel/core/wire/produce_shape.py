"""Finds the records in the simplest form of a Produce request, without decoding it.

Role.   Clients repeat the same request with other records. The bytes before the records (transactional id, acks,
        timeout, topic, partition) are then equal each time, and can be recognised instead of decoded.
Flow.   `broker.produce.shortcut` looks up the bytes `plain_records` finds before the records.
Rules.  * Plain means: no transactional id, one topic, one partition, no tagged fields; flexible versions only. For any
          other request the result is None, and the codec decodes it; the module refuses nothing.
        * A result is given only if the codec would read exactly one partition, with the same records.
"""

from typing import Final

FIRST_VERSION: Final = 9
BY_ID_SINCE: Final = 13
_NULL: Final = 0
_ONE: Final = 2  # Compact lengths are one more than the count.
_TOPIC_POSITION: Final = 8  # Behind the null, acks (2), timeout (4) and the count of topics.
_UUID_BYTES: Final = 16
_INDEX_BYTES: Final = 4
_NO_TAGS: Final = b"\0\0\0"  # Of the partition, the topic and the request.
NO_TAGS_BYTES: Final = len(_NO_TAGS)
_LENGTH_BYTES_MAX: Final = 4  # More than any request's.


def plain_records(frame: bytearray, version: int, position: int) -> tuple[int, int] | None:
    """Positions of the records' length and of the records, if the request at `position` is a plain one.

    The records end `NO_TAGS_BYTES` before the frame's end.
    """
    try:
        if frame[position] != _NULL or frame[position + _TOPIC_POSITION - 1] != _ONE:
            return None
        at = position + _TOPIC_POSITION
        if version < BY_ID_SINCE:
            size = frame[at]
            if not 1 < size < 0x80:
                return None
            at += size
        else:
            at += _UUID_BYTES
        if frame[at] != _ONE:
            return None
        length_at = at = at + 1 + _INDEX_BYTES
        size = shift = 0
        while (byte := frame[at]) >= 0x80:
            size |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if at - length_at == _LENGTH_BYTES_MAX:
                return None
        size |= byte << shift
    except IndexError:
        return None
    at += 1
    if size < _ONE or at + size - 1 + NO_TAGS_BYTES != len(frame) or not frame.endswith(_NO_TAGS):
        return None
    return length_at, at

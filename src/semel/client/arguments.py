"""Arguments of users, checked by name before anything is done with them.

Role.   One function per kind of argument, for producers, consumers and admin clients alike: a number, a topic, a partition, a time,
        a length of time, offsets. Each gives the plain value the client works with.
Flow.   The public methods call these first. A call with a wrong argument changes nothing and ends nothing.
Rules.  * `IllegalArgumentException` names the argument, the value, and what is accepted.
        * Whole numbers of other libraries (numpy's) are numbers; a `bool`, a float and a text are none.
        * A `datetime` without a time zone is UTC, everywhere; the first one of a process is warned about.
"""

import math
import operator
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from semel.exceptions import IllegalArgumentException, InvalidTopicException
from semel.types import TopicPartition
from semel.words import a, kind, shown

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_TEXT_MAX: Final = INT16_MAX  # The bound of the protocol's texts.
_TOPIC_MAX: Final = 249
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def refused(name: str, given: object, accepted: str) -> IllegalArgumentException:
    """The error for an argument of a wrong kind."""
    return IllegalArgumentException(f"{name}={shown(given)} is {kind(given)}: it must be {accepted}")


def whole(name: str, given: object, accepted: str, *, least: int | None = None, most: int = INT64_MAX) -> int:
    """A whole number within bounds; `accepted` says which in the error."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise refused(name, given, accepted)
    try:
        number = operator.index(given)
    except Exception as error:  # An array of numpy's, or a class whose own code fails: no number in any case.
        raise refused(name, given, accepted) from error
    if number > most or (least is not None and number < least):
        raise IllegalArgumentException(f"{name}={number}: it must be {accepted}")
    return number


def text(name: str, given: object, accepted: str, *, may_be_empty: bool = False) -> str:
    """Text that can be sent: UTF-8 has no lone surrogates."""
    if not isinstance(given, str):
        raise refused(name, given, accepted)
    if not given and not may_be_empty:
        raise IllegalArgumentException(f"{name}='' is empty: it must be {accepted}")
    if not given.isascii():
        check_utf8(name, given)
    if len(given) > _TEXT_MAX or len(given.encode()) > _TEXT_MAX:
        raise IllegalArgumentException(f"{name}={shown(given)} has more than {_TEXT_MAX} bytes: shorten it")
    return str(given)


def check_utf8(name: str, given: str) -> None:
    """Raise for text that no bytes stand for."""
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise IllegalArgumentException(
            f"{name}={shown(given)} is not text UTF-8 can write: {error.reason}"
        ) from None


def topic(given: object, name: str = "topic") -> str:
    """A topic's name; raises `InvalidTopicException` for one no broker takes."""
    if not isinstance(given, str):
        raise IllegalArgumentException(
            f"{name}={shown(given)}: invalid topic name: expected a non-empty str, got {kind(given)}"
        )
    if _TOPIC.fullmatch(given) and given not in (".", ".."):
        return str(given)
    if not given:
        raise IllegalArgumentException(f"{name}='': invalid topic name: expected a non-empty str")
    raise InvalidTopicException(
        f"{name}={shown(given)}: invalid topic name: use 1 to {_TOPIC_MAX} ASCII letters, digits, '.', '_' and '-', but not "
        "'.' or '..' alone"
    )


def topics(given: object, name: str = "topics") -> list[str]:
    """One name or many, without repeats."""
    if isinstance(given, str):
        return [topic(given, name)]
    return list(
        dict.fromkeys(topic(one, name) for one in listed(name, given, "a topic's name, or a list of names"))
    )


def names(given: object, name: str) -> list[str]:
    """One name of anything or many, without repeats."""
    accepted = "a name, or a list of names"
    some = [given] if isinstance(given, str) else listed(name, given, accepted)
    return list(dict.fromkeys(text(name, one, accepted, may_be_empty=True) for one in some))


def listed(name: str, given: object, accepted: str) -> list[Any]:
    """The elements of a list or of any other iterable."""
    if isinstance(given, str | bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        raise refused(name, given, accepted)
    return list(given)


def mapped(name: str, given: object, accepted: str) -> Mapping[Any, Any]:
    """A mapping."""
    if not isinstance(given, Mapping):
        raise refused(name, given, accepted)
    return given


def partition_index(given: object, name: str = "partition") -> int:
    """A partition's number."""
    accepted = "a whole number from 0 on"
    if type(given) is int and 0 <= given <= INT32_MAX:
        return given
    return whole(name, given, accepted, least=0, most=INT32_MAX)


def partition(given: object, name: str = "partition") -> TopicPartition:
    """One partition: a `TopicPartition`, or a pair."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise IllegalArgumentException(
            f"{name}={shown(given)} is not a partition: use TopicPartition(topic, partition), or the pair of both"
        )
    return TopicPartition(topic(given[0], f"{name}: topic"), partition_index(given[1], f"{name}: partition"))


def partitions(given: object, name: str = "partitions") -> list[TopicPartition]:
    """Some partitions; a `TopicPartition` alone stands for a list of itself."""
    if isinstance(given, TopicPartition):
        return [partition(given, name)]
    return [partition(one, name) for one in listed(name, given, "a list of partitions")]


def offset(given: object, name: str = "offset") -> int:
    """A place in a log."""
    found = given if type(given) is int else whole(name, given, "an offset, a whole number from 0 on")
    if not 0 <= found <= INT64_MAX:
        raise IllegalArgumentException(f"{name}: {found} is not an offset, the first one is 0")
    return found


def position(given: Any, name: str) -> tuple[int, str, int | None]:
    """An offset, or one with metadata and leader epoch: an `OffsetAndMetadata`, a tuple like one, what has its attributes."""
    if isinstance(given, int) or hasattr(given, "__index__"):
        return offset(given, name), "", None
    if hasattr(given, "offset"):
        metadata, epoch = getattr(given, "metadata", ""), getattr(given, "leader_epoch", None)
        found = (given.offset, metadata, epoch)
    elif isinstance(given, tuple) and 1 <= len(given) <= 3:
        found = (*given, *("", None)[len(given) - 1 :])
    else:
        raise refused(name, given, "an offset or an OffsetAndMetadata")
    where, remark, epoch = found
    return (
        offset(where, f"{name}: offset"),
        "" if remark is None else text(f"{name}: metadata", remark, "text", may_be_empty=True),
        None if epoch is None else whole(f"{name}: leader_epoch", epoch, "a whole number", most=INT32_MAX),
    )


def positions(given: object, name: str = "offsets") -> dict[TopicPartition, tuple[int, str, int | None]]:
    """Positions by partition."""
    found: dict[TopicPartition, tuple[int, str, int | None]] = {}
    for where, at in mapped(name, given, "a mapping of partitions to offsets").items():
        place = partition(where, name)
        found[place] = position(at, f"{name}[{place}]")
    return found


def milliseconds(given: object, name: str = "timestamp") -> int:
    """A time since 1970: whole milliseconds, or a `datetime`; without a zone it is UTC."""
    if isinstance(given, datetime):
        given = _since_1970(name, given)
    elif type(given) is not int:
        accepted = "whole milliseconds since 1970 or a datetime"
        if isinstance(given, float):
            accepted += "; of seconds, as time.time() gives them, use int(seconds * 1000)"
        elif isinstance(given, date):
            accepted += "; a day has no time, use datetime(year, month, day, tzinfo=UTC)"
        elif isinstance(given, str):
            accepted += "; of a text, use datetime.fromisoformat(text)"
        given = whole(name, given, accepted)
    if given < 0:
        raise IllegalArgumentException(
            f"Invalid {name}: {given}. Timestamp should always be non-negative or null."
        )
    if given > INT64_MAX:
        raise IllegalArgumentException(f"Invalid {name}: {given}. The last one is {INT64_MAX}.")
    return given


def _since_1970(name: str, given: datetime) -> int:
    try:
        if given.utcoffset() is None:
            warn_of_naive(f"{name}={shown(given)} has no time zone")
            given = given.replace(tzinfo=UTC)
        return (given - _EPOCH) // _MILLISECOND
    except (TypeError, ValueError, OverflowError) as error:  # Also pandas' NaT, which is a datetime.
        raise IllegalArgumentException(f"{name}={shown(given)} is not a time: {error}") from error


class _Naive:
    """Whether this process was warned."""

    is_told = False


def warn_of_naive(what: str) -> None:
    """A time without a zone was given: say once in a process that it is UTC."""
    if _Naive.is_told:
        return
    _Naive.is_told = True
    warnings.warn(
        f"{what}: it is taken as UTC. Give it one, as datetime.now(UTC). This is said once.",
        UserWarning,
        stacklevel=_level_of_caller(),
    )


def _level_of_caller() -> int:
    """How far up the stack the user's code is, for `warnings.warn` in the function that asks."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("semel."):
        level, frame = level + 1, frame.f_back
    return level


def seconds(given: object, name: str = "timeout") -> float | None:
    """How long to wait, None or infinity for as long as it takes."""
    if given is None or type(given) is int:
        return given
    found = _number(name, given, "a number of seconds, or None")
    return None if found == math.inf else found


def wait_ms(given: object, name: str = "timeout_ms") -> int:
    """How long to wait, in milliseconds; a part of one counts as one."""
    if type(given) is int and 0 <= given <= INT32_MAX:
        return given
    accepted = "a number of milliseconds from 0 on"
    found = _number(name, given, accepted)
    if found < 0:
        raise IllegalArgumentException(f"{name}={shown(given)}: it must be {accepted}")
    return math.ceil(min(found, INT64_MAX // 1000))


def _number(name: str, given: Any, accepted: str) -> float:
    if isinstance(given, bool | str | bytes | bytearray) or not hasattr(given, "__float__"):
        raise refused(name, given, accepted)
    try:
        found = float(given)
    except Exception as error:
        raise refused(name, given, accepted) from error
    if math.isnan(found):
        raise IllegalArgumentException(f"{name}=nan: it must be {accepted}")
    return found


def count_or_none(given: object, name: str) -> int | None:
    """How many at most; None for what the settings say."""
    return None if given is None else whole(name, given, "a whole number from 1 on, or None", least=1)


def function_or_none(given: object, name: str, takes: str) -> Callable[..., Any] | None:
    """A callable; `takes` names its arguments."""
    if given is None or callable(given):
        return given
    raise refused(name, given, f"{a('callable')} of {takes}")

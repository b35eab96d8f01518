"""A handler's answer: buffers, ranges of files, or nothing.

Role.   The vocabulary between handlers and connections.
Rules.  * A reply is a whole frame, its length included, in pieces that are sent one after the other.
        * The pieces belong to the connection from then on: it may send them later, without copying them.
        * A `FileSlice` stands for bytes of a file that the kernel sends itself; it has a length, so that the wire
          codec can count it among the records of a response. The file stays open until the slice is sent.
        * `None` is an answer too: the request gets no reply (acks=0).
        * An `Exclusive` answer is awaited before the next request of its connection begins.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from semel.runtime.files import File
from semel.types import BytesLike


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes of `file` from `position`."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size


Piece: TypeAlias = BytesLike | FileSlice
Reply: TypeAlias = BytesLike | list[BytesLike] | list[Piece] | None

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Exclusive(Generic[T_co]):
    """An answer that takes several turns of the loop or a thread, of a request whose order counts.

    A batch that is checked on a thread must be appended before the batches its producer has sent behind it.
    """

    answer: Awaitable[T_co]

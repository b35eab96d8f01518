"""The sticky assignor's user data in a subscription.

The bytes carry no version: readers try 1, which has the generation, then 0.
"""

from semel.core.wire.message import Row
from semel.core.wire.schema import Int32, String, Struct, array, at


class StickyTopicAssignment(Struct):
    topic: String = ""
    partitions: list[Int32] = array()


class StickyUserData(Row, versions="0-1", flexible="none"):
    previous_assignment: list[StickyTopicAssignment] = array()
    generation: Int32 = at("1+", -1, ignorable=True)

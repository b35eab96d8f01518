"""What kafka-python needs a hand with.

Its leader divides with what it knows of the topics at that moment. If the answer about a topic comes between the division and
the note of what was divided, it gives nobody anything, takes the division for a current one, and never looks again. On a busy
machine, and with a broker that lets a group begin at once, that happens.
"""

import time
from typing import Any, Final

_DEADLINE_SECONDS: Final = 60


def subscribe(consumer: Any, topic: str, **how: Any) -> None:
    """Subscribe to a topic once the consumer has heard of it."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while not consumer.partitions_for_topic(topic):
        assert time.monotonic() < deadline, f"kafka-python does not find {topic}"
    consumer.subscribe([topic], **how)

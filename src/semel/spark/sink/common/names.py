"""Under which names brokers know a sink: transactional ids, groups, ledger topics.

                       transactional id          group               ledger topic
    atomic sink        semel-sink-NAME           semel-sink-NAME     __semel_sinks: nothing is written to it, its offsets are entries
    drop-in, tasks     semel-sink:NAME:RUN:…
    drop-in, driver    semel-ledger:NAME[:RUN]   semel-ledger:NAME   __semel_sink_ledger: rows, compacted

Rules.  * The names stay as they are: running queries find their ledgers by them.
        * Names of sinks hold no colon, so no sink's ids begin like another's.
        * Access control allows `semel-sink-`, `semel-sink:` and `semel-ledger:`, and needs to know no more.
"""

from typing import Final

ATOMIC_LEDGER_TOPIC: Final = "__semel_sinks"
DROP_IN_LEDGER_TOPIC: Final = "__semel_sink_ledger"


def atomic_id(name: str) -> str:
    """The transactional id and the group of an atomic sink."""
    return f"semel-sink-{name}"


def prefix_of(name: str) -> str:
    """The beginning of the transactional ids of a drop-in sink's tasks."""
    return f"semel-sink:{name}:"


def run_prefix(name: str, run_id: str) -> str:
    """The beginning of the ids of one run."""
    return f"{prefix_of(name)}{run_id}:"


def ledger_id(name: str) -> str:
    """The transactional id and the group of the driver that writes a drop-in sink's row."""
    return f"semel-ledger:{name}"


def over_id(name: str, run_id: str) -> str:
    """A transactional id that comes to be when a run is over, and is never used."""
    return f"{ledger_id(name)}:{run_id}"

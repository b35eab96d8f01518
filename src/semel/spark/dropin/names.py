"""Under which names brokers know a drop-in sink: its transactional ids, its group.

Rules.  * Names of sinks hold no colon, so no sink's ids begin like another's.
        * Whoever controls access allows `semel-sink:` and `semel-ledger:`, and needs to know no more.
"""


def prefix_of(name: str) -> str:
    """How the transactional ids of a sink's tasks begin."""
    return f"semel-sink:{name}:"


def run_prefix(name: str, run_id: str) -> str:
    """How those of one run begin."""
    return f"{prefix_of(name)}{run_id}:"


def ledger_id(name: str) -> str:
    """The transactional id and the group of whoever writes the sink's row."""
    return f"semel-ledger:{name}"


def over_id(name: str, run_id: str) -> str:
    """A transactional id that comes to be when a run is over, and is never used."""
    return f"{ledger_id(name)}:{run_id}"

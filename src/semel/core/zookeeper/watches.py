"""One-shot watches: a client is told of the next change of a node, and of no further one.

Role.   A watch belongs to a connection. `data` watches are set by exists and getData, `child` watches by getChildren.
Rules.  * A deletion tells each watcher of a node once, whichever way it watched.
        * The order is ZooKeeper's: the node's watchers, then the parent's.
"""

from dataclasses import dataclass, field

from semel.core.zookeeper.tree import Occurrence
from semel.core.zookeeper.words import EventType

_Table = dict[str, dict[int, None]]


@dataclass(slots=True)
class Watches:
    """All watches of all connections."""

    _data: _Table = field(default_factory=dict)
    _child: _Table = field(default_factory=dict)

    def watch_data(self, path: str, connection: int) -> None:
        self._data.setdefault(path, {})[connection] = None

    def watch_children(self, path: str, connection: int) -> None:
        self._child.setdefault(path, {})[connection] = None

    def fired(self, occurrence: Occurrence) -> list[int]:
        """The connections that are to be told, whose watches are gone now."""
        match occurrence.type:
            case EventType.NODE_CREATED | EventType.NODE_DATA_CHANGED:
                return list(self._data.pop(occurrence.path, ()))
            case EventType.NODE_CHILDREN_CHANGED:
                return list(self._child.pop(occurrence.path, ()))
            case EventType.NODE_DELETED:
                told = self._data.pop(occurrence.path, {})
                return list({**told, **self._child.pop(occurrence.path, {})})

    def forget(self, connection: int) -> None:
        """The connection is gone, and its watches with it."""
        for table in (self._data, self._child):
            for path in [path for path, watchers in table.items() if connection in watchers]:
                del table[path][connection]
                if not table[path]:
                    del table[path]

"""Names of nodes: which ZooKeeper takes, and what lies above one."""

from typing import Final

ROOT: Final = "/"
SPECIAL: Final = frozenset({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})
"""Never deleted."""
_REFUSED: Final = (("\u0000", "\u001f"), ("\u007f", "\u009f"), ("\ud800", "\uf8ff"), ("\ufff0", "\uffff"))


def parent_of(path: str) -> str:
    """The path of the node above; the root is its own."""
    return path[: path.rfind("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def is_valid(path: str) -> bool:
    """Whether it is an absolute path without empty, relative or unprintable parts."""
    if not path.startswith("/"):
        return False
    if path == ROOT:
        return True
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        return False
    return not any(first <= letter <= last for letter in path for first, last in _REFUSED)

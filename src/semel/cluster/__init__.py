"""Where a cluster keeps what it knows of itself: a log of its own, or ZooKeeper.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

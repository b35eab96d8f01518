"""The log on disk: segments, indexes, checkpoints, recovery, retention.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

"""Measurements of Semel, beside the peers.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

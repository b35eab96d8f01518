"""The client's side of the protocol: it knows only the wire.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

"""The rules of the protocol as plain functions and state machines: no I/O, no clock, no randomness.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

"""The impure parts: clock, files, network and tasks, each real or simulated from a seed.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

"""Connections: frames in order, back pressure, requests matched to replies.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

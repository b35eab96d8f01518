"""Seeded scenarios with faults, and the campaigns that run many of them.

Internal, except `fault_proxy` (docs/testing.md): its modules may move in any release.
"""

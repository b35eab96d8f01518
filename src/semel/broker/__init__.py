"""The broker: Kafka's APIs over partitions' logs.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

"""Runners of peers: Apache Kafka, the jars of Spark's connector, PostgreSQL, and Semel's own broker as a process beside them.

Internal: its modules may move in any release. Programs import the names of docs/client.md.
"""

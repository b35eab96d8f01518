"""Pipelines on Spark and without it: streams, tables and changelogs, joins, databases, dead letters.

records         a topic as rows and back: `stream`, `read`, `to_records`
stateless       rows to many topics by condition
stateful        windows, sessions, deduplication; the state store
table           stream -> table -> changelog; the table read, also as of an offset or a time
rebuilding      a table that outlives its checkpoint
joins           a stream with a stream, a stream with a table
dead_letters    rows that do not parse, in a topic of their own
database        `DatabaseSink`: rows and batch number in one transaction
changes         a database's changes as a stream
local_table     a table on this machine, without Spark; `local_fold` computes one
"""

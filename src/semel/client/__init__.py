"""The client's side of the protocol: it knows only the wire.

Internal: programs import `semel`, `semel.aio`, `semel.exceptions` and `semel.telemetry`, whose names stay. Modules in here move.
"""

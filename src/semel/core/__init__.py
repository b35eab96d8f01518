"""The rules of the protocol as plain functions and state machines: no I/O, no clock, no randomness."""

"""Transactions, both ends of the protocol, without I/O."""

"""Idempotence: sequences, producer windows, a partition's producers, and their snapshot."""

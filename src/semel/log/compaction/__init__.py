"""Compaction: a log keeps the latest record of every key, and all its offsets."""

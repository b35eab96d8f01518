"""Markers of transactions: written to partitions led here, sent to those led by other brokers, and asked for until all are written."""

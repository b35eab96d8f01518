"""Measurements beside the peers, and how to run the peers."""

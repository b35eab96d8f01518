"""Measurements of Semel, beside the peers."""

"""Counts of what a broker does, and the page on which Prometheus finds them."""

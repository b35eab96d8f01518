"""The public clients for callers without an event loop."""

"""The broker's end: what a transaction coordinator decides."""

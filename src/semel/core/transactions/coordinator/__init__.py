"""The broker's end: the decisions of a transaction coordinator."""

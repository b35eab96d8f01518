"""The public producer: records and Arrow columns in, each stored exactly once."""

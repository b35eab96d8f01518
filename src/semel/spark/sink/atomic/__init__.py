"""The atomic sink: every micro-batch one transaction, whatever is killed."""

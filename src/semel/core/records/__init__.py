"""Record batches, version 2: the unit of the wire, the log and the idempotence check."""

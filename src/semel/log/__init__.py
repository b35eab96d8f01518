"""The log on disk: segments, indexes, checkpoints, recovery, retention."""

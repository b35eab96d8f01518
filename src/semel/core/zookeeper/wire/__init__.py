"""ZooKeeper's messages as values, and their bytes."""

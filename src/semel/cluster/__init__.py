"""Where a cluster keeps what it knows of itself: a log of its own, or ZooKeeper."""

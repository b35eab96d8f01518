"""ZooKeeper's client: what a broker of a cluster keeps its metadata in."""

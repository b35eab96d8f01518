"""What the brokers of a cluster under ZooKeeper agree on, without I/O."""

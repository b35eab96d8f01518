"""ZooKeeper's protocol and its server as a pure machine, as far as Kafka 3.9 uses both."""

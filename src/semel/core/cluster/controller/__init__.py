"""The controller of a cluster under ZooKeeper, as a pure machine: Kafka's controller, event by event."""

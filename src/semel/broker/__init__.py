"""The broker: Kafka's APIs over partitions' logs."""

"""Bytes and messages: the schema-driven codec of Kafka's protocol."""

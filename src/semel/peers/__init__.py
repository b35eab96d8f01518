"""Runners of peers: Apache Kafka, the jars of Spark's connector, PostgreSQL, and Semel's own broker as a process beside them."""

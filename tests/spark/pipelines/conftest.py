"""What tests of pipelines share: databases, and the two brokers of every Spark test."""

from support.peers.database_fixtures import database_url, postgresql_url

__all__ = ["database_url", "postgresql_url"]

"""The client's pure decisions: batching, partitioning, subscriptions and fetches."""

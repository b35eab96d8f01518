"""What clients decide, without waiting: batching, partitions, subscriptions, fetches."""

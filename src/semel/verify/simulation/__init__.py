"""Seeded stories of whole brokers and their clients, on virtual time."""

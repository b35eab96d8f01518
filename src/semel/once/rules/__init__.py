"""The pure rules of exactly-once consumers, which can be tested without a database."""

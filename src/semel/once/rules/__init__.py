"""The rules of consumers that count once: pure, so that every one of them can be tried without a database."""

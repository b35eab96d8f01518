"""Seeded stories with faults: each is a function of one integer and raises when a promise is broken."""

"""Seeded scenarios with faults, and the campaigns that run many of them."""

"""Produce beyond its handler: requests seen before, and the first writes of transactions."""

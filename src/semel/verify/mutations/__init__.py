"""Brokers, logs and clients that are wrong in one way each: what the simulation and its judgement must find."""

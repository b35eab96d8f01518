"""Brokers, logs and clients that are wrong in one way each: the simulation and its judgement must find each."""

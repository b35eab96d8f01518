"""Trouble on purpose: on the way to a broker, on its machine, and in a simulated world."""

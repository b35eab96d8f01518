"""Programs that use a broker in simulated worlds, and tell what they did and saw."""

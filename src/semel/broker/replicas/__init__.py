"""The replicas on this broker, and what it does for each: leading it, so far."""

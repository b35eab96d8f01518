"""Consumer groups: their coordinator, their members, their offsets. Pure."""

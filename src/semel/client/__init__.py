"""The client's side of the protocol: it knows only the wire."""

"""The producer: `engine` is the whole of it, `semel.aio.Producer` and `semel.Producer` are its two faces."""

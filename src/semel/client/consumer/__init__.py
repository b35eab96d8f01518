"""The consumer: `engine` is the whole of it, `semel.aio.Consumer` and `semel.Consumer` are its two faces."""

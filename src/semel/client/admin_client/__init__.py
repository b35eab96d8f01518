"""The public admin client: `semel.Admin` and `semel.aio.Admin` stand on it."""

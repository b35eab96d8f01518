"""The admin client: `semel.aio.Admin`, and through it `semel.Admin`. Its requests that others make too are in `calls`."""

"""The `semel` command, one file per subcommand.

Internal: programs run the command, or import the names of docs/client.md.
"""

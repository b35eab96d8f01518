"""`python -m semel`: the same as the `semel` command."""

from semel.cli.main import main

main()

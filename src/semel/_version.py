"""The one place the version is written; the build, the CLI and the broker read it here."""

__version__ = "0.1.0.dev0"

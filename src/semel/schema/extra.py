"""Libraries of the extra `semel[schema]`: what is said where one of them is missing."""

import importlib
from types import ModuleType

from semel.exceptions import ConfigException


def need(module: str, package: str, purpose: str) -> ModuleType:
    """The module; raises `ConfigException` with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise ConfigException(f"{purpose} needs {package}: pip install 'semel[schema]'") from None

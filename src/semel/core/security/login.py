"""A login: mechanism, name and password, read from the settings of SASL.

Role.   `login_of` makes a `Login` of `sasl.*`, or says why there is none to be made of them.
Flow.   `net.security` calls it for a security.protocol with SASL; `net.sasl` carries the login out.
Rules.  * `sasl.username` and `sasl.password` stand for a `sasl.jaas.config` with the same in it; both at once are refused.
        * No password is in an error or a repr.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semel.core.security.scram import HASHES
from semel.exceptions import ConfigException

PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, *HASHES)
_JAAS: Final = re.compile(
    r"""\s*(?P<module>[\w.$]+)\s+\w+(?P<options>(?:\s+[\w.]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+))*)\s*;?\s*"""
)
_OPTION: Final = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


@dataclass(frozen=True, slots=True)
class Login:
    """A name, and the proof of it."""

    mechanism: str
    username: str
    password: str = field(repr=False)


def login_of(values: Mapping[str, Any]) -> Login:
    """The login these settings ask for; raises `ConfigException`. A setting that is not in `values` was not given."""
    mechanism = values.get("sasl.mechanism") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise ConfigException(f"sasl.mechanism={mechanism}: not there; use {', '.join(MECHANISMS)}")
    jaas = values.get("sasl.jaas.config")
    username, password = values.get("sasl.username"), values.get("sasl.password")
    if jaas and (username or password):
        raise ConfigException("sasl.jaas.config is given beside sasl.username and sasl.password: keep one")
    if jaas:
        username, password = _of_jaas(jaas)
    if not username or password is None:
        raise ConfigException(
            f"sasl.mechanism={mechanism} needs a name and a password: set sasl.username and sasl.password, or sasl.jaas.config"
        )
    return Login(mechanism, username, password)


def _of_jaas(content: str) -> tuple[str | None, str | None]:
    """Name and password in Java's words: `…PlainLoginModule required username="me" password="secret";`."""
    found = _JAAS.fullmatch(content)
    if found is None or not found["module"].endswith(_MODULES):
        raise ConfigException(
            'sasl.jaas.config is not of the form ...ScramLoginModule required username="..." password="..."; '
            "(or PlainLoginModule): sasl.username and sasl.password do as well"
        )
    options = {
        one[1]: re.sub(r"\\(.)", r"\1", next(part for part in one.groups()[1:] if part is not None))
        for one in _OPTION.finditer(found["options"])
    }
    return options.get("username"), options.get("password")

"""Permissions on nodes: ZooKeeper's access lists, as far as Kafka uses them.

Role.   `checked` makes a list of a client's one that can be stored; `permits` decides; `authenticated` is the identity a login proves.
Rules.  * Schemes are world, digest and auth ("whoever I have shown myself to be"). Others are refused as ZooKeeper refuses a scheme
          that is not configured.
        * A digest is stored, never a password.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

from semel.core.zookeeper.words import Acl, Identity, Permission, RefusedError, ZooKeeperCode

_WORLD: Final = "world"
_ANYONE: Final = "anyone"
_AUTH: Final = "auth"
_DIGEST: Final = "digest"


def authenticated(scheme: str, credentials: bytes) -> Identity | None:
    """The identity that these credentials prove; None if the scheme is not served or they prove nothing."""
    if scheme != _DIGEST or b":" not in credentials:
        return None
    user = credentials.partition(b":")[0].decode()
    digest = base64.b64encode(hashlib.sha1(credentials, usedforsecurity=False).digest()).decode()
    return Identity(_DIGEST, f"{user}:{digest}")


def checked(path: str, asked: Sequence[Acl], identities: Sequence[Identity]) -> tuple[Acl, ...]:
    """The list as it is stored; raises INVALID_ACL."""
    stored: dict[Acl, None] = {}
    for one in asked:
        if one.scheme == _WORLD and one.identity == _ANYONE:
            stored[one] = None
        elif one.scheme == _AUTH:
            mine = [Acl(one.permissions, known.scheme, known.name) for known in identities]
            if not mine:
                raise RefusedError(ZooKeeperCode.INVALID_ACL, path)
            stored.update(dict.fromkeys(mine))
        elif one.scheme == _DIGEST and one.identity.count(":") == 1:
            stored[one] = None
        else:
            raise RefusedError(ZooKeeperCode.INVALID_ACL, path)
    if not stored:
        raise RefusedError(ZooKeeperCode.INVALID_ACL, path)
    return tuple(stored)


def permits(acl: Sequence[Acl], permission: Permission, identities: Sequence[Identity]) -> bool:
    """Whether one of these identities, or anybody, has one of these permissions."""
    return not acl or any(
        one.permissions & permission
        and (
            (one.scheme == _WORLD and one.identity == _ANYONE)
            or any(one.scheme == known.scheme and one.identity == known.name for known in identities)
        )
        for one in acl
    )


def without_secrets(acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """As it is shown to those who may not change it."""
    return tuple(
        Acl(one.permissions, one.scheme, one.identity.partition(":")[0] + ":x")
        if one.scheme == _DIGEST
        else one
        for one in acl
    )

"""Entities with settings in ZooKeeper: topics, brokers, users, clients and addresses, as rows of the metadata and back.

Role.   `rows` reads the settings of one node as rows for the image. `changed` says which settings of which node a row changes.
Flow.   An entity is named by its path below `/config`, as notifications name it: `topics/orders`, `users/ann/clients/<default>`.
Rules.  * A setting that no broker of ours knows, or whose value cannot be read, is left out of the rows and named as a flaw. It
          stays in its node: other brokers may know it.
        * Secrets of brokers are encrypted in ZooKeeper by a key that Kafka's brokers share. They are passed over, and not written.
        * A change is what differs from the image, so that settings others made at the same time stay.
        * A user's node has quotas and credentials side by side.
"""

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from semel.core.cluster.paths import DEFAULT_ENTITY, desanitized, sanitized
from semel.core.metadata.broker_configs import broker_key, changes_while_running
from semel.core.metadata.client_quotas import CLIENT_ID, IP, USER, Entity
from semel.core.metadata.config_types import ConfigKey, number_text
from semel.core.metadata.image import DEFAULT_BROKER, MetadataImage
from semel.core.metadata.rows import (
    BrokerConfigRow,
    Change,
    ClientQuotaRow,
    ScramRow,
    TopicConfigRow,
    TopicRow,
)
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.core.security.scram_credentials import Credential, Mechanism
from semel.errors import ConfigError, ErrorCode, Refuse

T = TypeVar("T")
TOPICS: Final = "topics"
BROKERS: Final = "brokers"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
ConfigRow: TypeAlias = TopicRow | TopicConfigRow | BrokerConfigRow | ClientQuotaRow | ScramRow
"""The rows that change settings. Credentials are the controller's to write, the others any broker writes itself."""

_OLDER_TOPIC_CONFIGS: Final = frozenset({"message.format.version", "message.downconversion.enable"})
"""Settings of Kafka 3.9's topics that have no meaning for today's record format."""
_WHOLE_QUOTAS: Final = frozenset({"producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"})
_QUOTAS: Final = _WHOLE_QUOTAS | {"request_percentage", "controller_mutation_rate"}
_MECHANISMS: Final = {"SCRAM-SHA-256": Mechanism.SHA_256, "SCRAM-SHA-512": Mechanism.SHA_512}
_MECHANISM_NAMES: Final = {int(mechanism): name for name, mechanism in _MECHANISMS.items()}
_CREDENTIAL: Final = re.compile(
    r"salt=(?P<salt>[^,]*),stored_key=(?P<stored>[^,]*),server_key=(?P<server>[^,]*),iterations=(?P<count>[0-9]+)"
)


class Read(NamedTuple):
    """The settings of an entity."""

    rows: list[Change]
    flaws: list[str]
    """Settings that cannot be read, and why."""


class Changed(NamedTuple):
    """The settings of an entity that change: their new values, or None where they are removed."""

    entity: str
    settings: dict[str, str | None]


# Reading


def rows(entity: str, configs: Mapping[str, str]) -> Read:
    """The rows that an entity's settings make; all of its settings are gone if there are none. Raises `ValueError` for a path
    that names no entity."""
    match entity.split("/"):
        case ["topics", name] if name:
            kept, flaws = _known(configs, _topic_key)
            return Read([TopicConfigRow(name, kept)], flaws)
        case ["brokers", name] if name == DEFAULT_ENTITY or name.isdecimal():
            kept, flaws = _known(configs, _broker_key)
            return Read([BrokerConfigRow(DEFAULT_BROKER if name == DEFAULT_ENTITY else name, kept)], flaws)
        case ["users", user] if user:
            found = _quotas(((USER, _name(user)),), configs)
            if user != DEFAULT_ENTITY:
                _add_credentials(found, desanitized(user), configs)
            return found
        case ["users", user, "clients", client] if user and client:
            return _quotas(((CLIENT_ID, _name(client)), (USER, _name(user))), configs)
        case ["clients", client] if client:
            return _quotas(((CLIENT_ID, _name(client)),), configs)
        case ["ips", address] if address:
            return _quotas(((IP, _name(address)),), configs)
        case _:
            raise ValueError(f"{entity!r} is no entity with settings")


def _known(
    configs: Mapping[str, str], find: Callable[[str], ConfigKey | str | None]
) -> tuple[dict[str, str], list[str]]:
    """The settings that can be used, and the flaws of others. `find` gives a key, None to pass over, or a flaw."""
    kept: dict[str, str] = {}
    flaws: list[str] = []
    for name, value in configs.items():
        key = find(name)
        if isinstance(key, str):
            flaws.append(key)
        elif key is not None:
            try:
                key.parse(value, as_kafka_3=True)
            except ConfigError as error:
                flaws.append(str(error))
            else:
                kept[name] = value
    return kept, flaws


def _topic_key(name: str) -> ConfigKey | str | None:
    if name in _OLDER_TOPIC_CONFIGS:
        return None
    return TOPIC_CONFIGS.get(name) or f"{name} is no setting of a topic that this broker knows"


def _broker_key(name: str) -> ConfigKey | str | None:
    key = broker_key(name)
    if key is None:
        return None  # Kafka's brokers have plugins with settings of their own.
    if key.sensitive:
        return None
    if not changes_while_running(key):
        return f"{name} cannot be changed while a broker runs"
    return key


def _quotas(entity: Entity, configs: Mapping[str, str]) -> Read:
    values: dict[str, float] = {}
    flaws: list[str] = []
    for name, value in configs.items():
        if name in _QUOTAS:
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                values[name] = number
            else:
                flaws.append(f"{name}={value!r} is no number")
        elif name not in _MECHANISMS or entity[0][0] != USER:
            flaws.append(f"{name} is no quota that this broker knows")
    return Read([ClientQuotaRow(entity, values)], flaws)


def _add_credentials(found: Read, user: str, configs: Mapping[str, str]) -> None:
    for name, mechanism in _MECHANISMS.items():
        credential = None
        if name in configs:
            try:
                credential = decode_credential(configs[name])
            except ValueError as error:
                found.flaws.append(f"{name}: {error}")
        found.rows.append(ScramRow(user, mechanism, credential))


def decode_credential(text: str) -> Credential:
    """Of the text that Kafka keeps. Raises `ValueError`; its text shows nothing of the credential."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise ValueError("no credential of SCRAM")
    try:
        salt, stored, server = (
            base64.b64decode(found[part], validate=True) for part in ("salt", "stored", "server")
        )
    except binascii.Error as error:
        raise ValueError("no credential of SCRAM") from error
    return Credential(int(found["count"]), salt, stored_key=stored, server_key=server)


def encode_credential(credential: Credential) -> str:
    """The text that Kafka keeps."""
    iterations, *parts = credential
    salt, stored, server = (base64.b64encode(part).decode("ascii") for part in parts)
    return f"salt={salt},stored_key={stored},server_key={server},iterations={iterations}"


# Writing


def changed(row: ConfigRow, image: MetadataImage) -> Changed | Refuse:
    """What a row changes of the settings that the image has."""
    match row:
        case TopicRow(name=name, configs=configs) | TopicConfigRow(topic=name, configs=configs):
            return Changed(f"{TOPICS}/{name}", _difference(image.topic_configs(name), configs))
        case BrokerConfigRow(broker, configs):
            settings = _difference(image.broker_configs(broker), configs)
            secrets = [name for name in settings if (key := broker_key(name)) is not None and key.sensitive]
            if secrets:
                return Refuse(
                    ErrorCode.INVALID_REQUEST,
                    f"{', '.join(secrets)}: secrets are not kept in ZooKeeper; set them in the broker's own file",
                )
            return Changed(f"{BROKERS}/{DEFAULT_ENTITY if broker == DEFAULT_BROKER else broker}", settings)
        case ClientQuotaRow(entity, values):
            before = {
                name: quota_text(name, value) for name, value in image.client_quotas.get(entity, {}).items()
            }
            after = {name: quota_text(name, value) for name, value in values.items()}
            return Changed(quota_path(entity), _difference(before, after))
        case ScramRow(user, mechanism, credential):
            text = None if credential is None else encode_credential(credential)
            return Changed(f"{USERS}/{sanitized(user)}", {_MECHANISM_NAMES[mechanism]: text})


def _difference(before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T | None]:
    settings: dict[str, T | None] = dict.fromkeys(name for name in before if name not in after)
    settings.update((name, value) for name, value in after.items() if before.get(name) != value)
    return settings


def applied(configs: Mapping[str, str], changes: Sequence[Changed]) -> dict[str, str]:
    """An entity's settings once these changes of it are made."""
    after = dict(configs)
    for change in changes:
        for name, value in change.settings.items():
            if value is None:
                after.pop(name, None)
            else:
                after[name] = value
    return after


def quota_path(entity: Entity) -> str:
    """The path of an entity with quotas."""
    named = {
        kind: DEFAULT_ENTITY if name is None else name if kind == IP else sanitized(name)
        for kind, name in entity
    }
    if USER in named:
        client = f"/{CLIENTS}/{named[CLIENT_ID]}" if CLIENT_ID in named else ""
        return f"{USERS}/{named[USER]}{client}"
    return f"{CLIENTS}/{named[CLIENT_ID]}" if CLIENT_ID in named else f"{IPS}/{named[IP]}"


def quota_text(name: str, value: float) -> str:
    """A quota as Kafka writes it: rates of bytes and connections are whole."""
    return str(round(value)) if name in _WHOLE_QUOTAS else number_text(float(value))


def _name(part: str) -> str | None:
    return None if part == DEFAULT_ENTITY else desanitized(part)

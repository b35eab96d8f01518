"""Which schema a key or value is written with, and the id it has: what all serializers share.

Role.   `Writing` finds the registered schema for a subject, once, as the settings say, and gives its codec.
Flow.   The serializers ask it for every record; `columns` for every column. `prepare` asks the registry before the first record.
Rules.  * The settings have Confluent's names. `auto.register.schemas` (true) registers the schema; without it the schema must be
          there; `use.latest.version` and `use.schema.id` take one of the registry's instead.
        * A subject is asked for once. With `use.latest.version` it is asked for again after the client's `cache.latest.ttl.sec`.
        * Avro values written with a registered schema that is not the given one must fit it: fastavro says where they do not.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from semel.exceptions import ConfigException, SerializationException
from semel.schema.codecs import Codec, Codecs, Registry
from semel.schema.errors import SchemaNotFoundError
from semel.schema.rules.framing import id_prefix
from semel.schema.rules.subjects import SerializationContext, strategy
from semel.schema.rules.values import RegisteredSchema, Schema
from semel.words import shown

_KEYS: Final = frozenset(
    {
        "auto.register.schemas",
        "normalize.schemas",
        "subject.name.strategy",
        "use.latest.version",
        "use.schema.id",
        "validate",
    }
)
_SUBJECTS_MAX: Final = 10_000


class Written(NamedTuple):
    """The schema, the prefix of its payloads, and the codec that makes them."""

    registered: RegisteredSchema
    prefix: bytes
    codec: Codec


class Writing:
    """The schema of one serializer, under the subjects of the topics it writes to."""

    def __init__(
        self,
        registry: Registry,
        schema: Schema | None,
        conf: Mapping[str, Any] | None,
        *,
        message: str | None = None,
        register: Callable[[str], Schema] | None = None,
    ) -> None:
        given = {str(key).replace("_", "."): value for key, value in (conf or {}).items()}
        if unknown := sorted(set(given) - _KEYS):
            raise ConfigException(
                f"{unknown[0]}: a serializer has no such setting; it has {', '.join(sorted(_KEYS))}"
            )
        self._strategy = strategy(given.get("subject.name.strategy"))
        self._normalize = _flag(given, "normalize.schemas", default=False)
        self._use_latest = _flag(given, "use.latest.version", default=False)
        self._use_id = given.get("use.schema.id")
        takes_theirs = self._use_latest or self._use_id is not None
        self._registers = _flag(given, "auto.register.schemas", default=not takes_theirs)
        if self._registers and takes_theirs:
            other = "use.latest.version" if self._use_latest else "use.schema.id"
            raise ConfigException(
                f"auto.register.schemas and {other} are both set: set auto.register.schemas=False"
            )
        if schema is None and not takes_theirs:
            raise ConfigException(
                "the schema is missing: give schema_str, or take the registry's with use.latest.version=True"
            )
        self.schema = schema
        self._message = message
        self._register = register
        self._codecs = Codecs(registry, validate=_flag(given, "validate", default=True))
        self._by_subject: dict[str, Written] = {}
        self._by_place: dict[tuple[str | None, str], Written] = {}
        self._name: str | None = None if schema is None else self._codecs.of(schema, message=message).name

    def subject(self, context: Any) -> str:
        """The subject of a topic's keys or values."""
        name: object = self._strategy(context, self._name)
        if not isinstance(name, str) or not name:
            raise SerializationException(
                f"subject.name.strategy gave {shown(name)}, which is no name of a subject"
            )
        return name

    def of(self, topic: str | None, field: str) -> Written:
        """The schema, prefix and codec for a topic's keys or values."""
        found = self._by_place.get((topic, field))
        if found is not None and not self._use_latest:
            return found
        if self._use_id is not None:
            written = self._written(self._codecs.client.get_schema(self._use_id))
        else:
            written = self._under(self.subject(SerializationContext(topic, field)))
        if len(self._by_place) >= _SUBJECTS_MAX:
            self._by_place.clear()
        self._by_place[topic, field] = written
        return written

    def _under(self, subject: str) -> Written:
        known = self._by_subject.get(subject)
        if self._use_latest:
            latest = self._codecs.client.get_latest_version(subject)
            if known is None or known.registered.schema_id != latest.schema_id:
                known = self._by_subject[subject] = self._written(latest)
            return known
        if known is None:
            if len(self._by_subject) >= _SUBJECTS_MAX:
                self._by_subject.clear()
            known = self._by_subject[subject] = self._written(self._found(subject))
        return known

    def _found(self, subject: str) -> RegisteredSchema:
        client, schema = self._codecs.client, self.schema
        if schema is None:
            raise ConfigException("the schema is missing: give schema_str")
        if self._register is not None:
            schema = self._register(subject)
        if self._registers:
            found = client.register_schema_full_response(subject, schema, self._normalize)
        else:
            try:
                found = client.lookup_schema(subject, schema, self._normalize)
            except SchemaNotFoundError as error:
                raise SchemaNotFoundError(
                    f"{error}; register it (semel schema register {subject} FILE), or set auto.register.schemas=True",
                    http_status_code=error.http_status_code,
                    error_code=error.error_code,
                    url=error.url,
                ) from error
        return found

    def _written(self, registered: RegisteredSchema) -> Written:
        codec = self._codecs.of(registered.schema, message=self._message)
        return Written(registered, id_prefix(registered.schema_id), codec)


def _flag(given: Mapping[str, Any], key: str, *, default: bool) -> bool:
    value = given.get(key)
    if value is None:
        return default
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfigException(f"{key}={shown(value)}: use True or False")
    return value

"""A schema registry's client: `SchemaRegistryClient`, blocking, and `AsyncSchemaRegistryClient` for asyncio.

Role.   Registers schemas and looks them up, by id, GUID, or subject and version. Method names are confluent-kafka's.
Flow.   Serializers, columns, Spark's helpers and `semel schema` ask it; it asks `transport`.
Rules.  * An id names one schema for ever: what was found is kept, up to `cache.capacity`, the least used going first. A missing one is asked for again. The latest version of a subject is believed for `cache.latest.ttl.sec`.
        * Any thread may call it. Threads that miss the same thing ask once: one waits for the other.
        * Another process can be given it through pickle; its cache there is empty.
Elsewhere. Settings: `settings`. Errors: `errors`.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, ParamSpec, TypeVar
from urllib.parse import quote

from semel.exceptions import IllegalArgumentException
from semel.schema.errors import SchemaNotFoundError, SchemaRegistryError
from semel.schema.rules.framing import SCHEMA_ID_MAX, Frame
from semel.schema.rules.values import (
    LATEST,
    AnswerShapeError,
    Compatibility,
    RegisteredSchema,
    Schema,
    checked_compatibility,
    checked_version,
    compatibility_of,
    registered_of,
    schema_of,
    whole,
)
from semel.schema.settings import RegistryConfig, RegistrySettings
from semel.schema.transport import Transport
from semel.words import shown

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")
P = ParamSpec("P")

REFERENCES_MAX: Final = 1000
"""So many schemas may one schema use, directly and through others."""


class _Kept(Generic[K, V]):
    """The values used last, up to a bound."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def drop(self, is_stale: Callable[[K], bool]) -> None:
        for key in [key for key in self._values if is_stale(key)]:
            del self._values[key]


class SchemaRegistryClient:
    """Schemas of one registry. Settings as `{"url": "http://localhost:8081"}`, or the URL alone."""

    def __init__(
        self,
        conf: RegistrySettings,
        *,
        transport: Transport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = RegistryConfig.of(conf)
        self._given = conf
        self._transport = Transport(self._config) if transport is None else transport
        self._monotonic = monotonic
        self._lock = threading.Lock()  # Held for moments; `_asking` while the registry answers.
        self._asking = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        capacity = self._config.cache_capacity
        self._by_id: _Kept[int | str, RegisteredSchema] = _Kept(capacity)
        self._by_version: _Kept[tuple[str, int], RegisteredSchema] = _Kept(capacity)
        self._registered: _Kept[tuple[str, Schema, bool, bool], RegisteredSchema] = _Kept(capacity)
        self._latest: _Kept[str, tuple[float, RegisteredSchema]] = _Kept(capacity)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._given,)

    def __repr__(self) -> str:
        return f"<SchemaRegistryClient of {', '.join(map(str, self._config.urls))}>"

    # Schemas

    def get_schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        if type(schema_id) is not int or not 0 <= schema_id <= SCHEMA_ID_MAX:
            raise IllegalArgumentException(
                f"schema_id={shown(schema_id)}: use a whole number from 0 to {SCHEMA_ID_MAX}"
            )
        return self._kept(
            self._by_id,
            schema_id,
            lambda: self._asked(
                f"/schemas/ids/{schema_id}",
                lambda answer: registered_of(answer, schema_id=schema_id),
                f"schema id {schema_id}",
            ),
        )

    def get_schema_by_guid(self, guid: str) -> RegisteredSchema:
        """The schema of a GUID. Only registries that give GUIDs know them."""
        return self._kept(
            self._by_id,
            guid,
            lambda: self._asked(f"/schemas/guids/{quote(guid, safe='')}", _of_guid, f"schema GUID {guid}"),
        )

    def get_framed(self, frame: Frame) -> RegisteredSchema:
        """The schema a record names."""
        if frame.schema_id is not None:
            return self.get_schema(frame.schema_id)
        return self.get_schema_by_guid(str(frame.guid))

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, as of at most `cache.latest.ttl.sec` ago."""
        found = self._believed(subject)
        if found is None:
            with self._asking:
                found = self._believed(subject)
                if found is None:
                    found = self._version(subject, LATEST)
                    with self._lock:
                        self._latest.put(subject, (self._monotonic(), found))
        return found

    def _believed(self, subject: str) -> RegisteredSchema | None:
        with self._lock:
            kept = self._latest.get(subject)
        if kept is None or self._monotonic() - kept[0] >= self._config.latest_ttl_seconds:
            return None
        return kept[1]

    def get_version(self, subject: str, version: int | str = LATEST) -> RegisteredSchema:
        """A version of a subject: a whole number, or `latest`."""
        if checked_version(version) == LATEST:
            return self.get_latest_version(subject)
        number = int(version)
        return self._kept(self._by_version, (subject, number), lambda: self._version(subject, str(number)))

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        return self._asked(
            f"{_subject(subject)}/versions/{version}", registered_of, f"subject {subject} version {version}"
        )

    def get_references(self, schema: Schema) -> dict[str, Schema]:
        """The schemas this one uses, directly and through others, by the names it has for them; used ones come first."""
        found: dict[str, Schema] = {}
        self._collect(schema, found, ())
        return found

    def _collect(self, schema: Schema, found: dict[str, Schema], above: tuple[tuple[str, int], ...]) -> None:
        for reference in schema.references:
            place = (reference.subject, reference.version)
            if place in above:
                raise SchemaRegistryError(
                    f"subject {reference.subject} version {reference.version} refers to itself through "
                    f"{' and '.join(one for one, _ in above)}: register schemas without a circle"
                )
            if reference.name in found:
                continue
            if len(found) >= REFERENCES_MAX or len(above) >= REFERENCES_MAX // 10:
                raise SchemaRegistryError(f"a schema uses more than {REFERENCES_MAX} others: split it")
            used = self.get_version(reference.subject, reference.version).schema
            self._collect(used, found, (*above, place))
            found[reference.name] = used

    # Registering

    def register_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema under a subject, unless it is there; gives its id."""
        return self.register_schema_full_response(subject, schema, normalize_schemas).schema_id

    def register_schema_full_response(
        self, subject: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        """The same; gives all the registry says of it."""

        def register() -> RegisteredSchema:
            found = self._asked(
                f"{_subject(subject)}/versions{_normalized(normalize_schemas)}",
                lambda answer: registered_of(answer, schema=schema),
                f"registering a schema under subject {subject}",
                method="POST",
                body=schema.document(),
            )
            with self._lock:
                self._latest.drop(lambda one: one == subject)
            return found

        return self._kept(self._registered, (subject, schema, normalize_schemas, True), register)

    def lookup_schema(
        self, subject: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        """The id and version of this very schema under a subject; it is not registered."""

        def look() -> RegisteredSchema:
            return self._asked(
                f"{_subject(subject)}{_normalized(normalize_schemas)}",
                lambda answer: registered_of(answer, schema=schema),
                f"looking for a schema under subject {subject}",
                method="POST",
                body=schema.document(),
            )

        return self._kept(self._registered, (subject, schema, normalize_schemas, False), look)

    def test_compatibility(self, subject: str, schema: Schema, version: int | str = LATEST) -> Compatibility:
        """Whether the schema may follow this version of a subject, under its compatibility level."""
        return self._asked(
            f"/compatibility{_subject(subject)}/versions/{checked_version(version)}?verbose=true",
            compatibility_of,
            f"checking a schema against subject {subject} version {version}",
            method="POST",
            body=schema.document(),
        )

    def test_compatibility_all_versions(self, subject: str, schema: Schema) -> Compatibility:
        """Whether it may be registered: the check registering makes."""
        return self._asked(
            f"/compatibility{_subject(subject)}/versions?verbose=true",
            compatibility_of,
            f"checking a schema against subject {subject}",
            method="POST",
            body=schema.document(),
        )

    # Subjects

    def get_subjects(self, deleted: bool = False) -> list[str]:
        """The names of all subjects, sorted; with `deleted`, softly deleted ones too."""
        return sorted(
            self._asked(f"/subjects{'?deleted=true' if deleted else ''}", _texts, "listing subjects")
        )

    def get_versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return self._asked(f"{_subject(subject)}/versions", _wholes, f"subject {subject}")

    def get_referenced_by(self, subject: str, version: int | str = LATEST) -> list[int]:
        """The ids of the schemas that use a version."""
        path = f"{_subject(subject)}/versions/{checked_version(version)}/referencedby"
        return self._asked(path, _wholes, f"schemas that use subject {subject} version {version}")

    def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete a subject; gives its versions. Its schemas can be read by their ids until it is deleted permanently, which
        needs a first deletion that is not."""
        self._forget(subject)
        return self._asked(
            f"{_subject(subject)}{'?permanent=true' if permanent else ''}",
            _wholes,
            f"deleting subject {subject}",
            method="DELETE",
        )

    def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete a version of a subject; gives its number."""
        self._forget(subject)
        return self._asked(
            f"{_subject(subject)}/versions/{checked_version(version)}{'?permanent=true' if permanent else ''}",
            _whole,
            f"deleting subject {subject} version {version}",
            method="DELETE",
        )

    def get_compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or of the registry where the subject has none of its own."""
        try:
            return self._level(f"/config{_name(subject)}", subject)
        except SchemaNotFoundError:
            if subject is None:
                raise
            return self._level("/config", None)

    def _level(self, path: str, subject: str | None) -> str:
        return self._asked(path, _level, f"compatibility level of {_whose(subject)}")

    def set_compatibility(self, subject: str | None = None, level: str = "BACKWARD") -> str:
        """Set the compatibility level of a subject, or of the registry; gives it."""
        self._asked(
            f"/config{_name(subject)}",
            lambda answer: answer,
            f"setting the compatibility level of {_whose(subject)}",
            method="PUT",
            body={"compatibility": checked_compatibility(level)},
        )
        return checked_compatibility(level)

    def remember(self, schemas: Iterable[RegisteredSchema]) -> None:
        """Keep schemas another client has looked up."""
        with self._lock:
            for one in schemas:
                self._by_id.put(one.schema_id, one)
                if one.subject is not None and one.version is not None:
                    self._by_version.put((one.subject, one.version), one)

    def clear_caches(self) -> None:
        """Forget everything that was looked up."""
        with self._lock:
            self._reset()

    # Asking

    def _asked(
        self, path: str, read: Callable[[Any], T], about: str, *, method: str = "GET", body: Any = None
    ) -> T:
        answer = self._transport.ask(method, path, body, about=about)
        try:
            return read(answer)
        except AnswerShapeError as error:
            raise SchemaRegistryError(
                f"{about}: {self._config.urls[0]}{path} answered with something else than a schema registry does: {error}",
                url=f"{self._config.urls[0]}{path}",
            ) from error

    def _kept(self, kept: "_Kept[K, V]", key: K, ask: Callable[[], V]) -> V:
        with self._lock:
            found = kept.get(key)
        if found is not None:
            return found
        with self._asking:
            with self._lock:
                found = kept.get(key)
            if found is None:
                found = ask()
                with self._lock:
                    kept.put(key, found)
            return found

    def _forget(self, subject: str) -> None:
        with self._lock:
            self._registered.drop(lambda one: one[0] == subject)
            self._by_version.drop(lambda one: one[0] == subject)
            self._latest.drop(lambda one: one == subject)


class AsyncSchemaRegistryClient:
    """The same for asyncio: each call on a thread beside the loop."""

    def __init__(self, conf: RegistrySettings) -> None:
        self.blocking = SchemaRegistryClient(conf)
        """The client that serializers take, with the same cache."""

    async def _beside(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, *args, **kwargs)

    async def get_schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        return await self._beside(self.blocking.get_schema, schema_id)

    async def get_schema_by_guid(self, guid: str) -> RegisteredSchema:
        """The schema of a GUID."""
        return await self._beside(self.blocking.get_schema_by_guid, guid)

    async def get_latest_version(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        return await self._beside(self.blocking.get_latest_version, subject)

    async def get_version(self, subject: str, version: int | str = LATEST) -> RegisteredSchema:
        """A version of a subject."""
        return await self._beside(self.blocking.get_version, subject, version)

    async def get_references(self, schema: Schema) -> dict[str, Schema]:
        """The schemas this one uses."""
        return await self._beside(self.blocking.get_references, schema)

    async def register_schema(self, subject: str, schema: Schema, normalize_schemas: bool = False) -> int:
        """Register a schema under a subject, unless it is there; gives its id."""
        return await self._beside(self.blocking.register_schema, subject, schema, normalize_schemas)

    async def lookup_schema(
        self, subject: str, schema: Schema, normalize_schemas: bool = False
    ) -> RegisteredSchema:
        """The id and version of this very schema under a subject."""
        return await self._beside(self.blocking.lookup_schema, subject, schema, normalize_schemas)

    async def test_compatibility(
        self, subject: str, schema: Schema, version: int | str = LATEST
    ) -> Compatibility:
        """Whether the schema may follow this version of a subject."""
        return await self._beside(self.blocking.test_compatibility, subject, schema, version)

    async def get_subjects(self, deleted: bool = False) -> list[str]:
        """The names of all subjects, sorted."""
        return await self._beside(self.blocking.get_subjects, deleted)

    async def get_versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return await self._beside(self.blocking.get_versions, subject)

    async def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete a subject; gives its versions."""
        return await self._beside(self.blocking.delete_subject, subject, permanent)

    async def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete a version of a subject; gives its number."""
        return await self._beside(self.blocking.delete_version, subject, version, permanent)

    async def get_compatibility(self, subject: str | None = None) -> str:
        """The compatibility level of a subject, or of the registry."""
        return await self._beside(self.blocking.get_compatibility, subject)

    async def set_compatibility(self, subject: str | None = None, level: str = "BACKWARD") -> str:
        """Set the compatibility level of a subject, or of the registry."""
        return await self._beside(self.blocking.set_compatibility, subject, level)


def _subject(subject: str) -> str:
    return f"/subjects{_name(subject, may_be_none=False)}"


def _name(subject: str | None, *, may_be_none: bool = True) -> str:
    if subject is None and may_be_none:
        return ""
    if not isinstance(subject, str) or not subject:
        raise IllegalArgumentException(f"subject={shown(subject)}: a subject is a text, as 'orders-value'")
    return f"/{quote(subject, safe='')}"


def _whose(subject: str | None) -> str:
    return "the registry" if subject is None else f"subject {subject}"


def _normalized(normalize_schemas: bool) -> str:
    return "?normalize=true" if normalize_schemas else ""


def _texts(answer: object) -> list[str]:
    if not isinstance(answer, list):
        raise AnswerShapeError(f"{shown(answer)} is no list")
    return list(map(str, answer))


def _wholes(answer: object) -> list[int]:
    if not isinstance(answer, list):
        raise AnswerShapeError(f"{shown(answer)} is no list")
    return [_whole(one) for one in answer]


def _whole(answer: object) -> int:
    return whole({"number": answer}, "number")


def _level(answer: object) -> str:
    found = answer.get("compatibilityLevel") if isinstance(answer, Mapping) else None
    if not isinstance(found, str):
        raise AnswerShapeError("`compatibilityLevel` is missing")
    return found


def _of_guid(answer: Any) -> RegisteredSchema:
    schema = schema_of(answer)
    schema_id = answer.get("id")
    return RegisteredSchema(schema_id if isinstance(schema_id, int) else -1, schema, guid=answer.get("guid"))

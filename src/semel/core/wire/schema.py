"""The language of message declarations: a class of fields, each with the versions that carry it.

Role.   The files in `messages/` declare every request and response in this small language:

            class FetchTopic(Struct):
                topic: String = at("0-12", "", ignorable=True)      # in these versions of the message
                topic_id: Uuid = at("13+", ZERO_UUID, ignorable=True)
                partitions: list[FetchPartition] = array()          # in all of them

            class FetchRequest(Request["FetchResponse"], key=1, versions="4-18", flexible="12+"):
                cluster_id: String | None = at("12+", None, tag=0)  # a tagged field, left out while it is None
                max_wait_ms: Int32 = 0
                topics: list[FetchTopic] = array()

        One class serves every version. The annotation gives the type on the wire, the value the default.
Flow.   Callers use `message.encode(version)` and `Message.decode(data, version)`; `message` compiles the table for one
        version on first use. `registry` finds the classes by API key.
Rules.  * Construction is by keyword; every field has Kafka's default. Types are checked by mypy, ranges on writing.
        * A field may be null where its annotation allows None, in the versions of `null` if that is given. A tagged
          struct is an exception: without `null`, None means absent, its default.
        * Writing a version that lacks a field drops the field if it is `ignorable` or still at its default, and is
          refused otherwise, so that no value is silently lost.
        * Unknown tagged fields are kept in `unknown_tags` and written back.
        * Importing a file of messages generates no code: `__init__` is made on first use, and so are codecs, per
          version.
"""

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from semel.errors import InvariantError
from semel.types import BytesLike

T = TypeVar("T")
Value: TypeAlias = Any  # A field's value where the field is known only at run time.
VERSION_MAX: Final = 0x7FFF


@dataclass(frozen=True, slots=True)
class Kind:
    """A type on the wire. `format` is `struct`'s letter where the size is fixed."""

    name: str
    size_min: int
    format: str = ""


INT8: Final = Kind("int8", 1, "b")
INT16: Final = Kind("int16", 2, "h")
INT32: Final = Kind("int32", 4, "i")
INT64: Final = Kind("int64", 8, "q")
FLOAT64: Final = Kind("float64", 8, "d")
BOOL: Final = Kind("bool", 1, "?")
UUID: Final = Kind("uuid", 16, "16s")
STRING: Final = Kind("string", 1)
BYTES: Final = Kind("bytes", 1)
RECORDS: Final = Kind("records", 1)

Int8: TypeAlias = Annotated[int, INT8]
Int16: TypeAlias = Annotated[int, INT16]
Int32: TypeAlias = Annotated[int, INT32]
Int64: TypeAlias = Annotated[int, INT64]
Float64: TypeAlias = Annotated[float, FLOAT64]
Bool: TypeAlias = Annotated[bool, BOOL]
Uuid: TypeAlias = Annotated[bytes, UUID]  # 16 raw bytes: used as a dictionary key.
String: TypeAlias = Annotated[str, STRING]
Bytes: TypeAlias = Annotated[bytes, BYTES]
Records: TypeAlias = Annotated[BytesLike, RECORDS]  # Read as a slice of the frame.


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty if `last < first`."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> "Versions":
        """`"3"`, `"3-7"`, `"3+"` or `"none"`."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return "none" if self.last < self.first else f"{self.first}-{self.last}"


ALL: Final = Versions(0, VERSION_MAX)
NEVER: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class Declared:
    """The value in a field's declaration. A class as default is instantiated for every message."""

    default: Value
    versions: Versions = ALL
    null: Versions | None = None
    tag: int | None = None
    ignorable: bool = False


def at(
    versions: str, default: T, *, null: str | None = None, tag: int | None = None, ignorable: bool = False
) -> T:
    """A field that only these versions carry."""
    nulls = None if null is None else Versions.of(null)
    return cast("T", Declared(default, Versions.of(versions), nulls, tag, ignorable))


def array(
    versions: str = "0+", *, null: str | None = None, tag: int | None = None, ignorable: bool = False
) -> list[Value]:
    """An array, empty unless given."""
    return cast("list[Value]", at(versions, list, null=null, tag=tag, ignorable=ignorable))


def struct(of: type[T], versions: str = "0+", *, null: str | None = None, tag: int | None = None) -> T:
    """A struct that is always present, with defaults."""
    return cast("T", at(versions, of, null=null, tag=tag))


@dataclass(frozen=True, slots=True)
class Field:
    """One resolved field of a struct, as the codecs use it."""

    name: str
    kind: Kind | None  # None: a struct.
    struct: type["Struct"] | None
    is_array: bool
    versions: Versions
    null: Versions
    tag: int | None
    ignorable: bool
    default: Value

    @property
    def absent_when_none(self) -> bool:
        """Whether this is a tagged struct that cannot be null: None stands for its default, which is not written."""
        return self.tag is not None and self.struct is not None and not self.is_array and self.null == NEVER

    @property
    def null_marker(self) -> int:
        """The byte that marks a null struct (a present one has 1). Kafka uses another one for tagged fields."""
        return -1 if self.tag is None else 0

    def new_default(self) -> Value:
        return self.default() if isinstance(self.default, type) else self.default

    def is_default(self, value: Value) -> bool:
        """Whether the value equals the default: then a tagged field is omitted, and a field the version lacks is
        dropped."""
        if self.absent_when_none:
            return value is None or (self.struct is not None and value == self.struct())
        return bool(value == self.new_default())


@dataclass_transform(kw_only_default=True)
class _StructType(type):
    """Turns a class body of fields into a class with slots."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Value], **options: Value
    ) -> "_StructType":
        declared = {
            field: value if isinstance(value, Declared) else Declared(value)
            for field, value in namespace.items()
            if not field.startswith("_") and not hasattr(value, "__get__")
        }
        body = {key: value for key, value in namespace.items() if key not in declared}
        body |= {
            "__slots__": tuple(declared),
            "_declared": declared,
            "_fields": None,
            "__init__": _first_init,
        }
        return super().__new__(mcs, name, bases, body, **options)


def _first_init(self: "Struct", **values: Value) -> None:
    """Stands in for `__init__` until the class is first constructed; then makes the real one."""
    cls = type(self)
    source, names = _init_source(cls)
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)  # noqa: S102  # source made from our tables only
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]  # the point of this function
    cls.__init__(self, **values)


def _init_source(cls: type["Struct"]) -> tuple[str, dict[str, Value]]:
    names: dict[str, Value] = {"_missing": object()}
    parameters, lines = ["self", "*"], []
    for field in fields_of(cls):
        if isinstance(field.default, type):
            names[f"_new_{field.name}"] = field.default
            parameters.append(f"{field.name}=_missing")
            lines.append(
                f" self.{field.name} = _new_{field.name}() if {field.name} is _missing else {field.name}"
            )
        else:
            parameters.append(f"{field.name}={field.default!r}")
            lines.append(f" self.{field.name} = {field.name}")
    parameters.append("unknown_tags=()")
    lines.append(" self.unknown_tags = unknown_tags")
    return f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines), names


class Struct(metaclass=_StructType):
    """A part of a message. Equality and text are by value."""

    _declared: ClassVar[dict[str, Declared]]
    _fields: ClassVar[tuple[Field, ...] | None]
    __hash__: ClassVar[None]  # type: ignore[assignment]  # values change, they are no keys

    unknown_tags: tuple[tuple[int, bytes], ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Struct):
            return NotImplemented
        names = ("unknown_tags", *self._declared)
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self._declared]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """The table of a struct, resolved once."""
    if cls._fields is None:
        annotations = cls.__annotations__
        cls._fields = tuple(
            _resolve(name, annotations[name], declared) for name, declared in cls._declared.items()
        )
    return cls._fields


def _resolve(name: str, annotation: Value, declared: Declared) -> Field:
    origin: Value = get_origin(annotation)
    nullable = origin is Union or origin is UnionType
    if nullable:
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    origin = get_origin(annotation)
    is_array = origin is list
    if is_array:
        (annotation,) = get_args(annotation)
        origin = get_origin(annotation)
    kind = annotation.__metadata__[0] if origin is Annotated else None
    element = None if kind is not None else annotation
    if declared.tag is not None and element is not None and not is_array and declared.null is None:
        nullable = False  # Absent, not null.
    null = (declared.null or declared.versions) if nullable else NEVER
    return Field(
        name=name,
        kind=kind,
        struct=element,
        is_array=is_array,
        versions=declared.versions,
        null=null,
        tag=declared.tag,
        ignorable=declared.ignorable,
        default=declared.default,
    )


def size_min(field: Field, *, flexible: bool, version: int) -> int:
    """Smallest encoded size of one element of the field (of the field itself, if it is not an array)."""
    if field.kind is not None:
        if field.kind.format:
            return field.kind.size_min
        return 1 if flexible else 2 if field.kind is STRING else 4
    if field.struct is None:
        raise InvariantError(f"{field.name} has neither a kind nor a struct")
    total = 1 if flexible else 0
    for inner in fields_of(field.struct):
        if version in inner.versions and inner.tag is None:
            if inner.is_array:
                total += 1 if flexible else 4
            elif version in inner.null and inner.struct is not None:
                total += 1
            else:
                total += size_min(inner, flexible=flexible, version=version)
    return total

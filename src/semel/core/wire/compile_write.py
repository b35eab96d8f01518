"""Python source that writes one version of one message, made from its table.

Role.   `compile_writer` gives a function `write(message, out)` that puts the message's pieces on a list: one
        `struct` call per run of fixed-size fields, lengths of classic strings and arrays included.
Flow.   `message` calls it once per message and version, and calls the function for every message.
Rules.  * An invalid value (a number out of range, a forbidden None, a wrong type) raises some exception; `message` then
          calls `plain.write` for the reason.
        * A field that the version lacks must have its default, unless it is ignorable.
        * An empty section of tagged fields is a zero byte in the run. Unknown tags are left to `plain.write`.

The generated source for Heartbeat v4 (`s` the bytes of a string, `V` the varints of one byte):

    def write(o0, out):
        if o0.unknown_tags: raise RareError
        s1 = o0.group_id.encode(); k1 = len(s1) + 1
        s2 = o0.member_id.encode(); k2 = len(s2) + 1
        ...
        out += (V[k1] if k1 < 128 else long_string(k1), s1, S0(o0.generation_id), V[k2] if …, s2, …, ZERO)
"""

from collections.abc import Callable
from dataclasses import replace
from struct import Struct as Packing
from typing import Final, TypeAlias

from semel.core.wire.primitives import STRING_SIZE_MAX, unsigned_varint
from semel.core.wire.schema import NEVER, STRING, UUID, Field, Kind, Struct, Value, fields_of
from semel.types import BytesLike

WriteFunction: TypeAlias = Callable[[Struct, list[BytesLike]], None]


class RareError(Exception):
    """A case compiled code leaves to `plain.write`, which writes it or refuses it with a reason."""


def compile_writer(cls: type[Struct], *, version: int, flexible: bool) -> WriteFunction:
    """The function that writes `cls` at `version`."""
    source, names = writer_source(cls, version=version, flexible=flexible)
    exec(compile(source, f"<write {cls.__name__} v{version}>", "exec"), names)  # noqa: S102  # source made from our tables only
    function: WriteFunction = names["write"]
    return function


def writer_source(cls: type[Struct], *, version: int, flexible: bool) -> tuple[str, dict[str, Value]]:
    """The source and the names it uses; separate from `compile_writer` for inspection."""
    maker = _WriterSource(version, flexible)
    maker.line("def write(o0, out):")
    maker.depth = 1
    maker.struct(cls, "o0")
    maker.flush()
    return "\n".join(maker.lines), maker.names


def _long_string(length: int) -> bytes:
    if length > STRING_SIZE_MAX + 1:
        raise RareError
    return unsigned_varint(length)


PRESENT_STRUCT: Final = b"\x01"
_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))
_INNER_LOOPS: Final = (
    2  # An array below topics and partitions is nearly always empty: its pieces are joined separately.
)
_ARRAYS_KEPT: Final = 16  # Integer arrays shorter than this (replicas, partitions) have a prepared function.
_ARRAYS: Final = {
    letter: tuple(Packing(f">{count}{letter}").pack for count in range(_ARRAYS_KEPT)) for letter in "bhiq"
}


def _numbers(values: list[int], letter: str) -> bytes:
    """An array of integers in one call."""
    return Packing(f">{len(values)}{letter}").pack(*values)


class _WriterSource:
    """Lines of source, the pieces not yet put out, and the run of fixed-size values that ends them."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 0
        self.pieces: list[str] = []
        self.run: list[tuple[str, str]] = []  # (format, expression)
        self.counter = 0
        self.loops = 0
        self.names: dict[str, Value] = {
            "RareError": RareError,
            "V": _ONE_BYTE,
            "ZERO": b"\0",
            "long_string": _long_string,
            "long_varint": unsigned_varint,
            "numbers": _numbers,
        }

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def bind(self, prefix: str, value: Value) -> str:
        name = self.name(prefix)
        self.names[name] = value
        return name

    def put(self, letter: str, expression: str) -> None:
        """One more value of the run; packed together with its neighbours."""
        self.run.append((letter, expression))

    def piece(self, expression: str) -> None:
        self.end_run()
        self.pieces.append(expression)

    def end_run(self) -> None:
        if self.run:
            letters = "".join(letter for letter, _ in self.run)
            values = ", ".join(expression for _, expression in self.run if expression)
            self.pieces.append(
                "ZERO" if letters == "x" else f"{self.bind('S', Packing('>' + letters).pack)}({values})"
            )
            self.run.clear()

    def flush(self) -> None:
        self.end_run()
        if len(self.pieces) == 1:
            self.line(f"out.append({self.pieces[0]})")
        elif self.pieces:
            self.line(f"out += ({', '.join(self.pieces)})")
        self.pieces.clear()

    def struct(self, cls: type[Struct], source: str) -> None:
        """Write the fields of the object in `source`; the last pieces stay open."""
        fields = fields_of(cls)
        for field in fields:
            if self.version not in field.versions and not field.ignorable:
                self.line(f"if {self.differs(field, source)}: raise RareError")
        for field in fields:
            if field.tag is None and self.version in field.versions:
                self.field(field, f"{source}.{field.name}")
        self.line(f"if {source}.unknown_tags: raise RareError")
        if self.flexible:
            tagged = [field for field in fields if field.tag is not None and self.version in field.versions]
            if tagged:
                self.tags(tagged, source)
            else:
                self.put("x", "")

    def tags(self, tagged: list[Field], source: str) -> None:
        """Write the section of tagged fields: their count, then each with its tag and size, by ascending tag."""
        pieces, count, outer, content = (self.name(prefix) for prefix in "tnuv")
        self.flush()
        self.line(f"if {' or '.join(self.differs(field, source) for field in tagged)}:")
        self.depth += 1
        self.line(f"{pieces} = []; {count} = 0; {outer} = out")
        for field in sorted(tagged, key=lambda one: one.tag or 0):
            self.line(f"if {self.must_write(field, source)}:")
            self.depth += 1
            self.line("out = []")
            self.field(field, f"{source}.{field.name}")
            self.flush()
            self.line(f"{content} = b''.join(out); {count} += 1")
            self.line(
                f"{pieces} += ({unsigned_varint(field.tag or 0)!r}, long_varint(len({content})), {content})"
            )
            self.depth -= 1
        self.line(f"out = {outer}")
        self.line(f"out.append(V[{count}])")
        self.line(f"out += {pieces}")
        self.depth -= 1
        self.line("else: out.append(ZERO)")

    def must_write(self, field: Field, source: str) -> str:
        """An expression that is true exactly where a tagged field is not at its default."""
        differs = self.differs(field, source)
        if field.absent_when_none and field.struct is not None:  # All defaults mean absent too.
            return f"{differs} and {source}.{field.name} != {self.bind('D', field.struct())}"
        return differs

    def differs(self, field: Field, source: str) -> str:
        """An expression that is true if the field must be written; it may be true for an optional write too."""
        value, default = f"{source}.{field.name}", field.new_default()
        if default is None:
            return f"{value} is not None"
        if default == [] and self.version in field.null:
            return f"({value} is None or {value})"
        if isinstance(default, bool | list) or default in (0, ""):
            return f"{value}" if not default else f"not {value}"
        if isinstance(default, Struct):
            return f"{value} != {self.bind('D', default)}"
        return f"{value} != {default!r}"

    def field(self, field: Field, value: str) -> None:
        nullable = self.version in field.null
        if field.is_array:
            self.array(field, value, nullable=nullable)
        elif field.kind is None:
            self.nested(field, value, nullable=nullable)
        elif field.kind.format:
            self.fixed(field.kind, value)
        else:
            self.sized(field.kind, value, nullable=nullable)

    def fixed(self, kind: Kind, value: str) -> None:
        if kind is UUID:  # `struct` would pad or truncate another length.
            self.line(f"if len({value}) != 16: raise RareError")
        self.put(kind.format, value)

    def nested(self, field: Field, value: str, *, nullable: bool) -> None:
        if field.struct is None:
            raise TypeError(field.name)
        inner = self.name("o")
        self.line(f"{inner} = {value}")
        if nullable:
            self.flush()
            self.line(f"if {inner} is None: out.append({bytes([field.null_marker & 0xFF])!r})")
            self.line("else:")
            self.depth += 1
            self.piece(repr(PRESENT_STRUCT))
        self.struct(field.struct, inner)
        if nullable:
            self.flush()
            self.depth -= 1

    def length(self, length: str, *, short: bool) -> None:
        """A length whose value is in `length`, one more if compact."""
        if self.flexible:
            more = "long_string" if short else "long_varint"
            self.piece(f"V[{length}] if {length} < 128 else {more}({length})")
        else:
            self.put("h" if short else "i", length)

    def sized(self, kind: Kind, value: str, *, nullable: bool) -> None:
        raw, length = self.name("s"), self.name("k")
        null, excess = ("0", " + 1") if self.flexible else ("-1", "")
        encoded = f"{raw} = {raw}.encode(); " if kind is STRING else ""
        self.line(f"{raw} = {value}")
        if nullable and self.flexible and kind is STRING:  # Usually null: a single piece without computation.
            self.line(f"if {raw} is None: {raw} = ZERO")
            self.line("else:")
            self.line(f"    {encoded}{length} = len({raw}){excess}")
            self.line(f"    {raw} = (V[{length}] if {length} < 128 else long_string({length})) + {raw}")
            self.piece(raw)
            return
        if nullable:
            self.line(f"if {raw} is None: {raw} = b''; {length} = {null}")
            self.line(f"else: {encoded}{length} = len({raw}){excess}")
        else:
            self.line(f"{encoded}{length} = len({raw}){excess}")
        self.length(length, short=kind is STRING)
        self.piece(raw)

    def array(self, field: Field, value: str, *, nullable: bool) -> None:
        values, length = self.name("l"), self.name("k")
        null, excess = ("0", " + 1") if self.flexible else ("-1", "")
        self.line(f"{values} = {value}")
        if nullable:
            self.line(f"if {values} is None: {values} = (); {length} = {null}")
            self.line(f"else: {length} = len({values}){excess}")
        else:
            self.line(f"{length} = len({values}){excess}")
        self.length(length, short=False)
        if field.kind is not None and field.kind.format in ("b", "h", "i", "q"):
            many = f"numbers({values}, {field.kind.format!r})"
            if nullable:
                self.piece(many)
            else:
                quick = f"{self.bind('A', _ARRAYS[field.kind.format])}[{length}{excess.replace('+', '-')}](*{values})"
                self.piece(f"{quick} if {length} <= {_ARRAYS_KEPT - 1} else {many}")
            return
        if self.loops < _INNER_LOOPS:
            self.flush()
            self.elements(field, values)
            return
        content, outer, pieces = self.name("v"), self.name("u"), self.pieces
        self.end_run()
        self.pieces = []
        self.line(f"{content} = b''")
        self.line(f"if {values}:")
        self.depth += 1
        self.line(f"{outer} = out; out = []")
        self.elements(field, values)
        self.line(f"{content} = b''.join(out); out = {outer}")
        self.depth -= 1
        self.pieces = [*pieces, content]

    def elements(self, field: Field, values: str) -> None:
        element = self.name("o")
        self.line(f"for {element} in {values}:")
        self.depth += 1
        self.loops += 1
        if field.struct is not None:
            self.struct(field.struct, element)
        else:
            self.field(replace(field, is_array=False, null=NEVER), element)
        self.flush()
        self.loops -= 1
        self.depth -= 1

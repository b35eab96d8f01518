"""Python source that reads one version of one message, made from its table.

Role.   `compile_reader` gives a function `read(data, position) -> message` without a loop over fields: runs of
        fields of fixed size are one `struct` call, nested arrays are nested loops in the same function.
Flow.   `message` calls it once per message and version, and calls the function for every message.
Rules.  * The function raises on all bytes `plain.read` refuses, without a useful message: `message` then calls `plain`
          for the reason. A check may be late but never missing: an overrun shows in the next read, or at the end,
          because positions only grow.
        * Lengths below null, counts beyond the bytes left, bad booleans and invalid UTF-8 are refused at once.
        * The elements of all arrays and the tagged fields of all sections are rows. A message with more rows than its
          caller allows raises `TooManyRowsError` before its end is read.
        * Messages with record bytes are read in place; all others from `bytes`. A memoryview needs its own code
          (`view`), because bytes decode text in a faster way.
        * Tags must be ascending, and a tagged field must take exactly its size.

The generated source for Heartbeat v4 (`b` bytes, `p` position, `n` rows left, `k` a compact length; numbered by nesting
and use):

    def read(b, p, n):
        o0 = new(C0)
        o0.unknown_tags = ()
        k1 = b[p]; p += 1
        if k1 > 127: k1, p = more_string(b, p, k1)
        if not k1: raise Malformed
        e = p + k1 - 1; o0.group_id = b[p:e].decode(); p = e
        o0.generation_id, k2 = S0(b, p); p += 5
        ...
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from struct import Struct as Packing
from typing import Final, TypeAlias

from semel.core.wire.primitives import STRING_SIZE_MAX, UNSIGNED_VARINT_MAX
from semel.core.wire.schema import (
    BOOL,
    BYTES,
    NEVER,
    RECORDS,
    STRING,
    Field,
    Kind,
    Struct,
    Value,
    fields_of,
    size_min,
)
from semel.errors import TooManyRowsError
from semel.types import BytesLike

ReadFunction: TypeAlias = Callable[[BytesLike, int, int], Value]  # An instance of the class it was made from.


def has_records(cls: type[Struct]) -> bool:
    """Whether a message carries record bytes, which are large and not copied."""
    return any(
        field.kind is RECORDS or (field.struct is not None and has_records(field.struct))
        for field in fields_of(cls)
    )


class MalformedError(Exception):
    """The bytes are invalid; `plain.read` gives the reason."""


def compile_reader(
    cls: type[Struct], *, version: int, flexible: bool, open_end: bool = False, view: bool = False
) -> ReadFunction:
    """The function that reads `cls` at `version` from bytes or a bytearray; with `view`, from a memoryview.

    With `open_end`, bytes may follow the message.
    """
    source, names = reader_source(cls, version=version, flexible=flexible, open_end=open_end, view=view)
    exec(compile(source, f"<read {cls.__name__} v{version}>", "exec"), names)  # noqa: S102  # source made from our tables only
    function: ReadFunction = names["read"]
    return function


def reader_source(
    cls: type[Struct], *, version: int, flexible: bool, open_end: bool = False, view: bool = False
) -> tuple[str, dict[str, Value]]:
    """The source and the names it uses; separate from `compile_reader` for inspection."""
    maker = _ReaderSource(version, flexible, view=view)
    maker.line("def read(b, p, n):")
    maker.depth = 1
    maker.line("end = len(b)")
    if has_records(cls):
        maker.line("m = memoryview(b)")
    maker.struct(cls, "o0")
    maker.flush()
    maker.line(f"if p {'>' if open_end else '!='} end: raise MalformedError")
    maker.line("return o0")
    return "\n".join(maker.lines), maker.names


def _more(data: BytesLike, position: int, value: int) -> tuple[int, int]:
    """The value of an unsigned varint whose first byte had its high bit set; its other bytes are read here."""
    value &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > UNSIGNED_VARINT_MAX:
                raise MalformedError
            return value, position
        shift += 7
        if shift == 35:
            raise MalformedError


def _more_string(data: BytesLike, position: int, value: int) -> tuple[int, int]:
    value, position = _more(data, position, value)
    if value > STRING_SIZE_MAX + 1:
        raise MalformedError
    return value, position


def _tag_start(data: BytesLike, position: int, end: int, last: int) -> tuple[int, int, int]:
    """A tag, the end of its field, and its start."""
    tag = data[position]
    position += 1
    if tag > 127:
        tag, position = _more(data, position, tag)
    size = data[position]
    position += 1
    if size > 127:
        size, position = _more(data, position, size)
    if tag <= last or size > end - position:
        raise MalformedError
    return tag, position + size, position


def _unknown_tags(
    data: BytesLike, position: int, end: int, count: int
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Read a section of unknown tagged fields."""
    found: list[tuple[int, bytes]] = []
    tag = -1
    for _ in repeat(None, count):
        tag, stop, position = _tag_start(data, position, end, tag)
        found.append((tag, bytes(data[position:stop])))
        position = stop
    return tuple(found), position


_ARRAYS_KEPT: Final = 16  # Integer arrays shorter than this (replicas, partitions) have a prepared function.
_ARRAYS: Final = {
    letter: tuple(Packing(f">{count}{letter}").unpack_from for count in range(_ARRAYS_KEPT))
    for letter in "bhiq"
}


def _numbers(data: BytesLike, position: int, count: int, letter: str) -> list[int]:
    """An array of integers in one call; the caller has checked that they are there."""
    return list(Packing(f">{count}{letter}").unpack_from(data, position))


class _ReaderSource:
    """Lines of source, and the run of fixed-size values not yet read."""

    def __init__(self, version: int, flexible: bool, *, view: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.text = 'str(b[p:e], "utf-8")' if view else "b[p:e].decode()"
        self.lines: list[str] = []
        self.depth = 0
        self.run: list[tuple[str, int, str]] = []  # (format, size, target)
        self.after_run: list[str] = []
        self.counter = 0
        self.names: dict[str, Value] = {
            "BOOLEANS": (False, True),
            "MalformedError": MalformedError,
            "TooManyRowsError": TooManyRowsError,
            "more": _more,
            "more_string": _more_string,
            "new": object.__new__,
            "numbers": _numbers,
            "tag_start": _tag_start,
            "unknown_tags": _unknown_tags,
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

    def take(self, letter: str, size: int, target: str) -> None:
        """One more value of the run; read together with its neighbours at the next `flush`."""
        self.run.append((letter, size, target))

    def flush(self) -> None:
        if self.run:
            letters = "".join(letter for letter, _, _ in self.run)
            size = sum(size for _, size, _ in self.run)
            if letters == "B":
                self.line(f"{self.run[0][2]} = b[p]")
            else:
                targets = ", ".join(target for _, _, target in self.run) + ("," if len(self.run) == 1 else "")
                self.line(f"{targets} = {self.bind('S', Packing('>' + letters).unpack_from)}(b, p)")
            self.line(f"p += {size}")
        for text in self.after_run:
            self.line(text)
        self.run.clear()
        self.after_run.clear()

    def struct(self, cls: type[Struct], target: str) -> None:
        """Create an object in `target` and read its fields; the last run stays open."""
        self.flush()
        self.line(f"{target} = new({self.bind('C', cls)})")
        fields = fields_of(cls)
        for field in fields:
            if field.tag is not None or self.version not in field.versions:
                self.default(field, target)
        self.line(f"{target}.unknown_tags = ()")
        for field in fields:
            if field.tag is None and self.version in field.versions:
                self.field(field, f"{target}.{field.name}")
        if self.flexible:
            self.tags(
                target,
                [field for field in fields if field.tag is not None and self.version in field.versions],
            )

    def tags(self, target: str, known: list[Field]) -> None:
        """The section of tagged fields that ends a struct: nearly always one zero byte."""
        count = self.name("t")
        self.take("B", 1, count)
        self.flush()
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, p = more(b, p, {count})")
        self.spend(count)
        if known:
            self.known_tags(target, known, count)
        else:
            self.line(f"{target}.unknown_tags, p = unknown_tags(b, p, end, {count})")
        self.depth -= 1

    def known_tags(self, target: str, known: list[Field], count: str) -> None:
        tag, last, stop, unknown = (self.name(prefix) for prefix in "gqzu")
        self.line(f"{last} = -1")
        self.line(f"{unknown} = []")
        self.line(f"while {count}:")
        self.depth += 1
        self.line(f"{count} -= 1")
        self.line(f"{tag}, {stop}, p = tag_start(b, p, end, {last})")
        self.line(f"{last} = {tag}")
        word = "if"
        for field in known:
            self.line(f"{word} {tag} == {field.tag}:")
            self.depth += 1
            self.field(field, f"{target}.{field.name}")
            self.flush()
            self.depth -= 1
            word = "elif"
        self.line(f"else: {unknown}.append(({tag}, bytes(b[p:{stop}]))); p = {stop}")
        self.line(f"if p != {stop}: raise MalformedError")
        self.depth -= 1
        self.line(f"if {unknown}: {target}.unknown_tags = tuple({unknown})")

    def spend(self, count: str) -> None:
        """Subtract rows from the caller's limit, before they are read."""
        self.line(f"n -= {count}")
        self.line("if n < 0: raise TooManyRowsError")

    def default(self, field: Field, target: str) -> None:
        default = field.new_default()
        if isinstance(default, Struct):
            self.line(f"{target}.{field.name} = {self.bind('C', type(default))}()")
        else:
            self.line(f"{target}.{field.name} = {default!r}")

    def field(self, field: Field, target: str) -> None:
        nullable = self.version in field.null
        if field.is_array:
            self.array(field, target, nullable=nullable)
        elif field.kind is None:
            self.nested(field, target, nullable=nullable)
        elif field.kind is BOOL:
            raw = self.name("x")
            self.take("B", 1, raw)
            self.after_run.append(f"{target} = BOOLEANS[{raw}]")
        elif field.kind.format:
            self.take(field.kind.format, field.kind.size_min, target)
        else:
            self.sized(field.kind, target, nullable=nullable)

    def nested(self, field: Field, target: str, *, nullable: bool) -> None:
        if field.struct is None:
            raise TypeError(field.name)
        inner = self.name("o")
        if nullable:
            present = self.name("x")
            self.take("b", 1, present)
            self.flush()
            self.line(f"if {present} == {field.null_marker}: {target} = None")
            self.line(f"elif {present} != 1: raise MalformedError")
            self.line("else:")
            self.depth += 1
        self.struct(field.struct, inner)
        self.flush()
        self.line(f"{target} = {inner}")
        if nullable:
            self.depth -= 1

    def length(self, *, short: bool) -> tuple[str, str, int]:
        """Read a length; its name, the test for null, and what to subtract from it."""
        length = self.name("k")
        if self.flexible:
            self.take("B", 1, length)
            self.flush()
            self.line(
                f"if {length} > 127: {length}, p = {'more_string' if short else 'more'}(b, p, {length})"
            )
            return length, f"{length} == 0", 1
        self.take("h" if short else "i", 2 if short else 4, length)
        self.flush()
        return length, f"{length} == -1", 0

    def sized(self, kind: Kind, target: str, *, nullable: bool) -> None:
        length, null, excess = self.length(short=kind is STRING)
        value = {STRING: self.text, BYTES: "bytes(b[p:e])", RECORDS: "m[p:e]"}[kind]
        if nullable:
            self.line(f"if {null}: {target} = None")
            self.line("else:")
            self.depth += 1
        if not self.flexible:
            self.line(f"if {length} < 0: raise MalformedError")
        elif not nullable:
            self.line(f"if not {length}: raise MalformedError")
        self.line(f"e = p + {length}" + (f" - {excess}" if excess else ""))
        self.line(f"{target} = {value}")
        self.line("p = e")
        if nullable:
            self.depth -= 1

    def array(self, field: Field, target: str, *, nullable: bool) -> None:
        length, null, excess = self.length(short=False)
        least = size_min(field, flexible=self.flexible, version=self.version)
        if nullable:
            self.line(f"if {null}: {target} = None")
            self.line("else:")
            self.depth += 1
        if excess:
            self.line(f"{length} -= {excess}")
        self.line(f"if {length} < 0 or {length} * {least} > end - p: raise MalformedError")
        self.spend(length)
        if field.kind is not None and field.kind.format in ("b", "h", "i", "q"):
            quick = f"list({self.bind('A', _ARRAYS[field.kind.format])}[{length}](b, p)) if {length} < {_ARRAYS_KEPT}"
            self.line(f"{target} = {quick} else numbers(b, p, {length}, {field.kind.format!r})")
            self.line(f"p += {length} * {least}")
        else:
            self.elements(field, target, length)
        if nullable:
            self.depth -= 1

    def elements(self, field: Field, target: str, length: str) -> None:
        values, element = self.name("l"), self.name("o")
        self.line(f"{target} = {values} = []")
        self.line(f"while {length}:")
        self.depth += 1
        self.line(f"{length} -= 1")
        if field.struct is not None:
            self.struct(field.struct, element)
        else:
            self.field(replace(field, is_array=False, null=NEVER), element)
        self.flush()
        self.line(f"{values}.append({element})")
        self.depth -= 1

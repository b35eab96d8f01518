"""Regular expressions that clients send: RE2's syntax, matched in time linear in the name.

Role.   `flaw` says why an expression is invalid; `resolve` gives the names that match as a whole; `whole_match` tests
        one name.
Flow.   A member's heartbeat is checked with `flaw`; the group resolves its expressions when topics appear.
        ListTransactions tests every transactional id.
Rules.  * An expression that RE2 refuses gets the message of Kafka's implementation (re2j): lookaround, back references,
          possessive and nested repetition, more than a thousand repetitions.
        * An expression that would compile to megabytes is refused too, which re2j would not.
        * The library is RE2 itself. Python's `re` has another syntax, and backtracks exponentially on hostile
          expressions of twenty characters.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import re2

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20  # As RE2's default; an expression that compiles to more is refused.

# RE2's messages -> re2j's, which Kafka's responses carry.
_WORDS: Final[Mapping[str, str]] = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}

_NAMED: Final = "(?<"


def flaw(expression: str) -> str | None:
    """Why this regular expression is invalid, or None if it is valid."""
    try:
        re2.compile(expression, _OPTIONS)
    except re2.error as refused:
        text = refused.args[0]
        said = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        words, _, where = said.partition(": ")
        if where.startswith(_NAMED):  # re2j parses a lookbehind as a named group.
            return _WORDS["invalid named capture group"]
        return _WORDS.get(words, words)
    return None


def resolve(expression: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that match as a whole, sorted; empty for an invalid expression."""
    matches = whole_match(expression)
    return () if matches is None else tuple(sorted(filter(matches, names)))


def whole_match(expression: str) -> Callable[[str], bool] | None:
    """A test whether a name matches as a whole; None for an invalid expression."""
    try:
        pattern = re2.compile(expression, _OPTIONS)
    except re2.error:
        return None
    return lambda name: pattern.fullmatch(name) is not None

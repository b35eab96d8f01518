"""Helpers for error messages: articles, and short forms of values. Internal: it may move in any release.

Role.   `a` puts the right article before a noun; `shown` gives a short form of a user's value, even if its `repr`
        fails.
"""

from typing import Final

_VOWELS: Final = "aeiou"
_SPOKEN_AS_CONSONANTS: Final = ("uni", "use", "uu", "eu", "one", "once")
_SPOKEN_AS_VOWELS: Final = ("ndarray",)
_SHOWN_MAX: Final = 80


def a(noun: str) -> str:
    """The noun with its article: an int, a str, a UUID, an admin client."""
    word = noun.lower()
    begins_so = word.startswith(tuple(_VOWELS)) and not word.startswith(_SPOKEN_AS_CONSONANTS)
    is_vowel = begins_so or word.startswith(_SPOKEN_AS_VOWELS)
    return f"{'an' if is_vowel else 'a'} {noun}"


def kind(value: object) -> str:
    """The value's type with its article; None and bytes have none."""
    if value is None:
        return "None"
    name = type(value).__name__
    return name if name == "bytes" else a(name)


def shown(value: object) -> str:
    """The value's `repr`, truncated if it is long."""
    try:
        text = repr(value)
    except Exception:  # A user's class: its `repr` must not raise another error.
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"

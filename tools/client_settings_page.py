"""Write docs/client-settings.md: `python tools/client_settings_page.py`.

Role.   The settings of the clients are known to their tables, and the page is made of them. A test compares the page with what
        this would write.
"""

from pathlib import Path
from typing import Final

from semel.client.config_keys import REFUSED
from semel.client.settings import AdminConfig, ConsumerConfig, ProducerConfig, Settings, without_effect
from semel.core.metadata.config_types import ConfigKey

PAGE: Final = Path(__file__).parent.parent / "docs" / "client-settings.md"
KINDS: Final[tuple[tuple[str, type[Settings]], ...]] = (
    ("Producer", ProducerConfig),
    ("Consumer", ConsumerConfig),
    ("Admin", AdminConfig),
)
HEAD: Final = """# Settings of the Python client

<!-- Written by tools/client_settings_page.py from the client's own tables. -->

Kafka 4.3's keys and defaults. What differs: `isolation.level`, and the stores of TLS, which are PEM. `sequence.error.policy`,
`sasl.username` and `sasl.password` are Semel's own. Keywords with underscores mean the same: `linger.ms` is `linger_ms`. Any other
key is refused, also the other ones of TLS and SASL. How they are given and checked: [the client](client.md#settings).
"""


def written() -> str:
    """The page as it should be."""
    return HEAD + "".join(_part(title, kind) for title, kind in KINDS)


def _part(title: str, kind: type[Settings]) -> str:
    idle = without_effect(kind)
    rows = "".join(
        f"| `{name}` | {key.type.name.lower()} | {_default(key)} |\n"
        for name, key in sorted(kind.KEYS.items())
        if name not in idle
    )
    quiet = ", ".join(f"`{name}`" for name in idle if name not in REFUSED and not kind.KEYS[name].internal)
    refused = ", ".join(f"`{name}`" for name in idle if name in REFUSED)
    return (
        f"\n## {title}\n\n| key | type | default |\n|---|---|---|\n{rows}\n"
        f"Accepted without effect, with a warning: {quiet}.\n\nRefused unless empty: {refused}.\n"
    )


def _default(key: ConfigKey) -> str:
    if key.name == "bootstrap.servers":
        return "must be given"
    if key.name == "client.id":
        return "made, as Java does"
    if key.default is None or not key.default:
        return ""
    return ", ".join(
        f"`{one.rpartition('.')[2] if one.startswith('org.') else one}`" for one in key.default.split(",")
    )


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")

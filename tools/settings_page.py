"""Write the lists of settings without effect into docs/compatibility.md: `python tools/settings_page.py`.

Role.   Everything Kafka knows is accepted, checked and described; which of it Semel does not act on is known to its tables, and
        the page is made of them. A test compares the page with what this would write.
"""

from pathlib import Path
from typing import Final

from semel.core.metadata.broker_configs import BROKER_CONFIGS, without_effect
from semel.core.metadata.group_configs import GROUP_CONFIGS
from semel.core.metadata.topic_configs import TOPIC_CONFIGS

PAGE: Final = Path(__file__).parent.parent / "docs" / "compatibility.md"
BEGIN: Final = "<!-- Written by tools/settings_page.py: begin -->\n"
END: Final = "<!-- Written by tools/settings_page.py: end -->\n"


def lists() -> str:
    """What stands between the marks."""
    listed = [name for name, key in BROKER_CONFIGS.items() if not key.internal]
    parts = (
        ("Of a topic", [name for name, key in TOPIC_CONFIGS.items() if key.documentation is None]),
        ("Of a group", [name for name, key in GROUP_CONFIGS.items() if key.documentation is None]),
        ("Of a broker", without_effect(listed)),
    )
    return "\n".join(f"{title}: {_names(sorted(names))}.\n" for title, names in parts)


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def written(page: str) -> str:
    """The page with its lists as they should be."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + "\n" + lists() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

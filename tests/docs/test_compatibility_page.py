"""The lists of settings without effect are the tables' own, and what is said to have an effect is used.

Method: the page is compared with what its tool would write; every setting with a sentence is looked for in the code.
"""

import importlib.util
import re
from pathlib import Path

import pytest

from semel.core.metadata.broker_configs import BROKER_CONFIGS
from semel.core.metadata.topic_configs import TOPIC_CONFIGS

ROOT = Path(__file__).parent.parent.parent


def test_the_page_lists_what_the_tables_say() -> None:
    spec = importlib.util.spec_from_file_location("settings_page", ROOT / "tools" / "settings_page.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page == tool.written(page), "run: python tools/settings_page.py"


@pytest.fixture(scope="module")
def code() -> str:
    """Everything but the tables themselves."""
    modules = (path for path in (ROOT / "src" / "semel").rglob("*.py") if "_configs" not in path.name)
    return "\n".join(path.read_text(encoding="utf-8") for path in modules)


def test_what_is_said_to_have_an_effect_is_read_somewhere(code: str) -> None:
    behind = {name for key in TOPIC_CONFIGS.values() if key.documentation for name in key.synonyms}
    unread = [
        name
        for name, key in BROKER_CONFIGS.items()
        if key.documentation is not None
        and name not in behind
        and f'"{name}"' not in code
        and re.search(rf"\b{name.replace('.', '_')}\b", code) is None
        and not name.startswith(("group.consumer.min.", "group.consumer.max."))  # By a rule over names.
    ]
    assert unread == []

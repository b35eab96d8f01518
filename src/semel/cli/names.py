"""Names of a cluster for the shell: topics and groups as they are typed.

Role.   `complete_topics`, `complete_groups`, `complete_profiles` and others are given to arguments and options; the shell asks with the words typed
        so far.
Rules.  * A person waits at a prompt: after a second, or SEMEL_COMPLETION_SECONDS, there are no names. A cluster that is away or refuses has none either, and
          nothing is ever printed about it: a message would land in the middle of the line being typed.
"""

import logging
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from semel.client.cluster import Cluster

_BUDGET_S: Final = 1.0
_BUDGET_VARIABLE: Final = "SEMEL_COMPLETION_SECONDS"
_NAMES_MAX: Final = 1000


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Topics that begin so; Kafka's own only where they are asked for."""

    async def ask(cluster: "Cluster") -> list[str]:
        from semel.client.calls.list_topics import list_topics

        return [
            one.name
            for one in await list_topics(cluster)
            if not one.is_internal or incomplete.startswith("_")
        ]

    return _items(ctx, ask, incomplete)


def complete_groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Groups that begin so."""

    async def ask(cluster: "Cluster") -> list[str]:
        from semel.client.calls.list_groups import list_groups

        return [one.group_id for one in await list_groups(cluster)]

    return _items(ctx, ask, incomplete)


def complete_profiles(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Profiles that begin so."""
    from semel.cli.profiles import config_path, read  # Not for a broker that starts.

    return _quietly(lambda: list(read(config_path()).by_name), incomplete)


def complete_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files: the shell knows them."""
    return [CompletionItem(incomplete, type="file")]


def complete_directories(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Directories, for values that need not be there yet."""
    return [CompletionItem(incomplete, type="dir")]


def _items(
    ctx: click.Context, ask: "Callable[[Cluster], Coroutine[Any, Any, list[str]]]", incomplete: str
) -> list[CompletionItem]:
    return _quietly(lambda: _asked(ctx, ask), incomplete)


def _budget_s() -> float:
    """How long the names may take; of a variable that is no time the default holds, for nothing can be said about it here."""
    try:
        given = float(os.environ.get(_BUDGET_VARIABLE, _BUDGET_S))
    except ValueError:
        return _BUDGET_S
    return given if 0 < given <= threading.TIMEOUT_MAX else _BUDGET_S


def _quietly(names_of: Callable[[], list[str]], incomplete: str) -> list[CompletionItem]:
    """The names that begin so, if they come in time."""
    found: list[str] = []
    logging.disable()  # This process completes one word and ends.

    def work() -> None:
        try:
            found.extend(names_of())
        except Exception:  # Whatever it is, a line that is being typed is no place for it.
            found.clear()

    asking = threading.Thread(target=work, daemon=True)
    asking.start()
    asking.join(_budget_s())
    names = sorted(name for name in tuple(found) if name.startswith(incomplete))
    return [CompletionItem(name) for name in names[:_NAMES_MAX]]


def _asked(ctx: click.Context, ask: "Callable[[Cluster], Coroutine[Any, Any, list[str]]]") -> list[str]:
    from semel.cli.options import connected

    limit = str(max(1, int(_budget_s() * 1000)))
    impatient = dict.fromkeys(
        ("default.api.timeout.ms", "request.timeout.ms", "socket.connection.setup.timeout.ms"), limit
    )
    with connected(ctx.params["bootstrap"], {**ctx.params["settings"], **impatient}) as client:
        return client.run(ask)

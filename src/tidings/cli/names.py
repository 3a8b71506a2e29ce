"""Names for shell completion: servers of the catalog, and tools, resources and prompts of the TARGET.

The server is asked with a short timeout, and its answer is cached for some minutes. Nothing is printed and no error is
raised. A TARGET that is a command is started, once it is typed in full.
"""

import contextlib
import hashlib
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click
from click.shell_completion import CompletionItem

from tidings.cli.conversation import KINDS, Conversation, converse, summary_of
from tidings.cli.oneshot import OneShotOptions, catalog, choose

CACHE_SECONDS: Final = 300.0
TIMEOUT: Final = 2.0
_LONGEST_HELP: Final = 60
_MOST: Final = 500

Names = list[tuple[str, str]]


def targets(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the servers of the catalog; if none matches, the shell offers files."""
    with contextlib.suppress(Exception):
        names = [CompletionItem(name) for name in catalog().names() if name.startswith(incomplete)]
        if names:
            return names
    return [CompletionItem(incomplete, type="file")]


def _complete(kind: str, ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        found = _names(ctx, kind)
    except (Exception, SystemExit):  # noqa: BLE001 - nothing may disturb the person who is typing
        return []
    # A name that contains a line feed would become two.
    matching = [(name, about) for name, about in found if name.startswith(incomplete) and name.isprintable()]
    return [CompletionItem(name, help=about[:_LONGEST_HELP] or None) for name, about in matching[:_MOST]]


tools = partial(_complete, "tools")
resources = partial(_complete, "resources")
prompts = partial(_complete, "prompts")


def _names(ctx: click.Context, kind: str) -> Names:
    given = ctx.params
    target: Any = given.get("target")
    if not target:
        return []
    headers, env = dict(given.get("headers") or []), dict(given.get("env") or [])
    entry, _ = choose(target, headers, given.get("token"), env, given.get("cwd"))
    identity = json.dumps([entry.command, entry.args, sorted(entry.env.items()), entry.cwd, entry.url, kind])
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings/completion"
    file = folder / f"{hashlib.sha256(identity.encode()).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        if time.time() - file.stat().st_mtime <= CACHE_SECONDS:
            pairs = cast("list[list[str]]", json.loads(file.read_text("utf-8")))
            return [(str(name), str(about)) for name, about in pairs]
    found: Names = []

    def ask(conversation: Conversation) -> None:
        items = conversation.load_if_any(KINDS[kind]).items
        found.extend((str(item[KINDS[kind].id]), summary_of(item)) for item in items)

    converse(OneShotOptions(entry, era=given.get("era") or "auto", timeout=TIMEOUT), ask)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found), "utf-8")
        scratch.replace(file)
    return found

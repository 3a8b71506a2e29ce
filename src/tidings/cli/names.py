"""What a shell is offered: names of servers in the catalog, and of what the TARGET has.

The server is asked with little patience, and its answer is kept for some minutes: whoever presses Tab must not wait,
nor read errors. A TARGET that is a command is started for it, once it is typed in full.
"""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any, Final, cast

import click
from click.shell_completion import CompletionItem

from tidings.cli.conversation import KINDS, load_if_any, title_of
from tidings.cli.oneshot import Asked, Extras, catalog, choose
from tidings.cli.terminal import one_line

KEPT_SECONDS: Final = 300.0
PATIENCE: Final = 2.0
_LONGEST_HELP: Final = 60
_MOST: Final = 500

Names = list[tuple[str, str]]


def targets(incomplete: str) -> list[CompletionItem]:
    """The servers of the catalog; and files, for those who keep theirs in one."""
    with contextlib.suppress(Exception):
        names = [CompletionItem(name) for name in catalog().names() if name.startswith(incomplete)]
        if names:
            return names
    return [CompletionItem(incomplete, type="file")]


def names(ctx: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """What the TARGET has of this kind. Empty if it cannot be said quickly."""
    try:
        found = _names(ctx, kind)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever it is, somebody is typing
        return []
    # A name with an end of line in it would be two.
    matching = [(name, about) for name, about in found if name.startswith(incomplete) and name.isprintable()]
    return [CompletionItem(name, help=about[:_LONGEST_HELP] or None) for name, about in matching[:_MOST]]


def _names(ctx: click.Context, kind: str) -> Names:
    given = ctx.params
    target: Any = given.get("target")
    if not target:
        return []
    extras = Extras(
        dict(given.get("headers") or []),
        given.get("token"),
        env=dict(given.get("env") or []),
        cwd=given.get("cwd"),
    )
    chosen = choose(target, extras)
    entry = chosen.entry
    identity = json.dumps([entry.command, entry.args, sorted(entry.env.items()), entry.cwd, entry.url, kind])
    file = _folder() / f"{hashlib.sha256(identity.encode()).hexdigest()}.json"
    if (kept := _kept(file)) is not None:
        return kept
    found = _ask(Asked(chosen, era=given.get("era") or "auto", timeout=PATIENCE), kind)
    _keep(file, found)
    return found


def _ask(asked: Asked, kind: str) -> Names:
    from tidings.cli.conversation import Conversation, converse

    found: Names = []

    def question(talk: Conversation) -> None:
        chosen = KINDS[kind]
        found.extend((str(item[chosen.id]), one_line(title_of(item))) for item in load_if_any(talk, chosen).items)

    converse(asked, question, lambda _: None)
    return found


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings/completion"


def _kept(file: Path) -> Names | None:
    try:
        if time.time() - file.stat().st_mtime > KEPT_SECONDS:
            return None
        pairs = cast("list[list[str]]", json.loads(file.read_text("utf-8")))
        return [(str(name), str(about)) for name, about in pairs]
    except (OSError, ValueError, TypeError):
        return None


def _keep(file: Path, found: Names) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found), "utf-8")
        scratch.replace(file)

"""What a TARGET on the command line stands for, with the options that were given for it.

Without the SDK: a one-shot command must not wait for it to learn what was meant.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tidings.client.servers_file import Entry
from tidings.errors import BadTarget
from tidings.inspector.catalog import Catalog, user_catalog
from tidings.inspector.catalog_entry import ServerEntry
from tidings.inspector.catalog_targets import resolve

TOKEN_VARIABLE: Final = "TIDINGS_BEARER_TOKEN"  # noqa: S105 - the name of a variable
"""Not TIDINGS_TOKEN, which is what a server of ours asks of its clients: it must not reach other people's servers."""


@dataclass(frozen=True)
class Chosen:
    """The server that was meant, with all that the user gave for it, and what the catalog has for it besides."""

    entry: Entry
    era: str | None = None
    timeout: float | None = None
    roots: tuple[str, ...] = ()

    @property
    def is_command(self) -> bool:
        """Whether the server is a program to start."""
        return self.entry.command is not None


@dataclass(frozen=True)
class Extras:
    """What was given besides the target."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str | None = None
    token_is_explicit: bool = False
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None


def choose(target: str | Sequence[str], extras: Extras) -> Chosen:
    """The server that `target` stands for: a text, or the words of a command.

    Raises:
        BadTarget: It was not understood, or an option does not fit it.
    """
    try:
        found = resolve(target, catalog())
    except BadTarget:
        # The program may be there only as seen from the folder that it is to run in.
        if extras.cwd is None or not (words := _words(target)) or not Path(extras.cwd, words[0]).is_file():
            raise
        found = ServerEntry(words[0], command=words[0], args=tuple(words[1:]))
    return Chosen(
        _with(found.resolved(os.environ), extras),
        era=found.era if found.era != "auto" else None,
        timeout=found.timeouts.request or found.timeouts.connect,
        roots=found.roots,
    )


def _words(target: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(target) if isinstance(target, str) else list(target)
    except ValueError:
        return []


def catalog() -> Catalog:
    """The user's catalog of servers."""
    return Catalog(user_catalog(os.environ, sys.platform, Path.home()), read_only=True)


def _with(entry: Entry, extras: Extras) -> Entry:
    if entry.command is not None:
        for option, given in (("--header", extras.headers), ("--token", extras.token_is_explicit)):
            if given:
                raise BadTarget(f"{option} is for a server at a URL; this one is a command. Give it a variable: --env.")
        return replace(entry, env={**entry.env, **extras.env}, cwd=extras.cwd or entry.cwd)
    for option, given in (("--env", extras.env), ("--cwd", extras.cwd)):
        if given:
            raise BadTarget(f"{option} is for a command; this server is at a URL. Leave it out.")
    own = {name.lower() for name in extras.headers}
    headers = {name: value for name, value in entry.headers.items() if name.lower() not in own} | dict(extras.headers)
    if extras.token and (extras.token_is_explicit or not any(name.lower() == "authorization" for name in headers)):
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        headers["Authorization"] = f"Bearer {extras.token.removeprefix('Bearer ')}"
    return replace(entry, headers=headers)

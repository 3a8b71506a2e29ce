"""The doctor on files: the catalog of servers, the journal of the inspector, and the files of AI clients.

The doctor on the environment: variables of Tidings that are set, and those that nobody reads.
"""

import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from tidings.cli.doctor.command import CheckedPath, Finding, not_writable, owned, tidied
from tidings.cli.main import load
from tidings.cli.serving import http_address
from tidings.cli.terminal import listed, size_text
from tidings.cli.variables import COMMANDS, Configured, long_name
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry, find_clients, user_catalog

_LARGE: Final = 10**9


def catalog(place: CheckedPath) -> Iterator[Finding]:
    """The servers that the inspector and the one-shot commands know by name."""
    path = user_catalog(place.environ, place.platform, place.home)
    shown = tidied(path, place)
    try:
        listing = Catalog(path, read_only=True).listing()
    except CatalogError as error:
        cure = f"Mend it in an editor, or move it away: {_away(path)}"
        yield Finding("catalog", "wrong", str(error), cure)
        return
    if not path.is_file():
        yield _none("catalog", path, place, "`tidings inspect` makes one", "servers cannot be added")
        return
    if (opened := _open_to_others(path, place)) is not None:
        yield Finding("catalog", "look", f"{shown} can be read by others, and may hold tokens.", opened)
    for problem in listing.problems:
        yield Finding("catalog", "wrong", problem, f"Mend it in {shown}.")
    if not _writable(path):
        yield Finding("catalog", "look", f"{shown} cannot be written: servers cannot be added to it.", _owned(path))
    yield Finding("catalog", "ok", f"{_servers(listing.entries)} ({shown}).")
    yield from _startable("catalog", listing.entries, place)


def journal(place: CheckedPath) -> Iterator[Finding]:
    """What the inspector recorded."""
    from tidings.inspector.sessions.saved import Newer, Unusable, default_path, open_for_reading

    path = default_path()
    shown = tidied(path, place)
    if not path.exists():
        yield _none("journal", path, place, "the inspector makes one", "no session is kept")
        return
    if (opened := _open_to_others(path, place)) is not None:
        yield Finding("journal", "look", f"{shown} can be read by others, and holds what servers said.", opened)
    if not _writable(path):  # It cannot be looked into, either.
        yield Finding("journal", "wrong", f"{shown} cannot be written: no session is kept.", _owned(path))
        return
    size = path.stat().st_size
    try:
        connection = open_for_reading(path)
    except Newer as error:
        yield Finding("journal", "wrong", f"{shown}: {error}.", "Use that version, or move the file away.")
        return
    except Unusable as error:
        yield Finding("journal", "wrong", f"{shown} cannot be used: {error}.", _away(path))
        return
    try:
        [count] = connection.execute("SELECT count(*) FROM sessions").fetchone()
    finally:
        connection.close()
    words = f"{count:,} {'session' if count == 1 else 'sessions'}, {size_text(size)} ({shown})."
    if size > _LARGE:
        yield Finding("journal", "look", words, "Delete old sessions in the inspector, or the file.")
    else:
        yield Finding("journal", "ok", words)


def clients(place: CheckedPath) -> Iterator[Finding]:
    """The servers that programs with AI in them are set up with."""
    found = find_clients(place.home, place.cwd, place.platform, place.environ)
    if not found:
        words = "no servers set up in Claude Desktop, Claude Code, VS Code or Cursor."
        yield Finding("AI clients", "ok", words, "`tidings vault PATH --config CLIENT` prints what a client needs.")
    for each in found:
        where = tidied(each.path, place)
        if each.project is not None and each.project not in each.path.parents:
            where += f", for {tidied(each.project, place)}"
        if each.problem is not None:
            cure = f"Mend {tidied(each.path, place)}; until then {each.client} may not see its servers either."
            yield Finding(each.client, "wrong", each.problem, cure)
        if each.servers:
            yield Finding(each.client, "ok", f"{_servers(each.servers)} ({where}).")
            yield from _startable(each.client, each.servers, place)


def _startable(what: str, entries: Iterable[ServerEntry], place: CheckedPath) -> Iterator[Finding]:
    """The servers whose program is not there."""
    for entry in entries:
        command = entry.command
        if command is None or "$" in command:
            continue
        folder = place.cwd if entry.cwd is None else Path(entry.cwd).expanduser()
        path = entry.env.get("PATH") or place.environ.get("PATH", "")
        there = (folder / command).exists() if "/" in command else shutil.which(command, path=path) is not None
        if not there:
            words = f"{entry.name} cannot start: there is no program {command!r}."
            yield Finding(what, "look", words, "Install it, or give its whole path in the file.")


def _servers(entries: Iterable[ServerEntry]) -> str:
    names = [entry.name for entry in entries]
    return f"{len(names)} {'server' if len(names) == 1 else 'servers'}{': ' if names else ''}{listed(names)}"


def _writable(path: Path) -> bool:
    """Whether the file can be replaced, too."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)


def _away(path: Path) -> str:
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.broken')}"


def _owned(path: Path) -> str:
    return "\n".join(owned(each) for each in (path.parent, path) if not os.access(each, os.W_OK))


def _none(what: str, path: Path, place: CheckedPath, makes: str, without: str) -> Finding:
    """There is no such file: whether one can be made."""
    if (problem := not_writable(path.parent, place)) is not None:
        words, cure = problem
        return Finding(what, "look", f"none, and {tidied(path, place)} cannot be made: {words}; {without}.", cure)
    return Finding(what, "ok", f"none yet ({tidied(path, place)}); {makes}.")


def _open_to_others(path: Path, place: CheckedPath) -> str | None:
    """The command that hides the file from others; None if they cannot read it."""
    if place.platform == "win32" or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    return f"chmod 600 {shlex.quote(str(path))}"


TOKENS: Final = {
    "TIDINGS_TOKEN": "what clients of your servers have to send",
    "TIDINGS_BEARER_TOKEN": "what one-shot commands send to a server at a URL",
}
"""Secrets: that they are set is told, and nothing of them."""
OTHERS: Final = {
    "TIDINGS_URI": "`tidings watch --exec` sets it for what it runs",
    "TIDINGS_WEB_PAGES": "where the benchmark of the web server has its pages from",
}

_SECRET: Final = ("--bus",)
"""Options whose values may hold a password."""
_CHECKED_LATER: Final = {"--http": http_address}
"""Options that take any text on a command line, where what follows may be a folder; a variable is refused by this."""


def variables(place: CheckedPath) -> Iterator[Finding]:
    """Each variable that is named as if it were ours."""
    options = option_variables()
    known = [*TOKENS, *OTHERS, *options]
    ours = [name for name in sorted(place.environ) if name.upper().startswith("TIDINGS_")]
    if not ours:
        yield Finding("variables", "ok", "none of Tidings is set.")
    for name in ours:
        value = place.environ[name]
        if name in TOKENS:
            yield _token(name, value)
        elif name in OTHERS:
            yield Finding(name, "ok", f"set; {OTHERS[name]}.")
        elif name in options:
            yield _option(name, value, *options[name])
        else:
            near = get_close_matches(name.upper(), known, n=1)
            cure = f"Did you mean {near[0]}?" if near else f"unset {name}"
            yield Finding(name, "wrong", "nobody reads a variable of this name.", cure)


def option_variables() -> dict[str, tuple[Configured, click.Option]]:
    """Every variable that stands for an option, but for tokens; with a command that has it, and the option."""
    return {
        str(option.envvar): (command, option)
        for name in COMMANDS
        if isinstance(command := load(name), Configured)
        for option in command.params
        if isinstance(option, click.Option) and option.envvar and option.envvar not in TOKENS
    }


def _option(name: str, value: str, command: Configured, option: click.Option) -> Finding:
    use = f"it is what `tidings {command.name} {long_name(option)}` would be"
    if name.startswith("TIDINGS_LOG_"):
        use = f"it is what `{long_name(option)}` would be"
    try:
        if value:
            values = option.type.split_envvar_value(value) if option.multiple else value
            option.type_cast_value(click.Context(command), values)
            if check := _CHECKED_LATER.get(long_name(option)):
                check(value)
    except click.ClickException as error:
        cure = f"Correct it, or: unset {name}"
        return Finding(
            name, "wrong", f"{error.message.removeprefix(f'{long_name(option)}: ').rstrip('.')}; {use}.", cure
        )
    return Finding(name, "ok", f"{'set, not shown' if long_name(option) in _SECRET else repr(value)}; {use}.")


def _token(name: str, value: str) -> Finding:
    use = TOKENS[name]
    if not value:
        return Finding(name, "look", f"set, and empty; it is {use}.", f"Give it a value, or: unset {name}")
    if not (value.isascii() and value.isprintable()) or " " in value:
        words = "has characters that cannot be sent: a token consists of visible ASCII characters without spaces."
        return Finding(name, "wrong", words, "Often it is a line's end that was copied with it: set it anew.")
    return Finding(name, "ok", f"set ({len(value)} characters, not shown); it is {use}.")

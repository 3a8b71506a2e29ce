"""The doctor's checks of files and variables: catalog, journal, files of AI clients, environment."""

import os
import shlex
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import click

from tidings._kit.suggest import did_you_mean
from tidings._kit.text import counted, listed, size_text
from tidings.cli.doctor.command import CheckedPath, Finding, not_writable, owned, tidied
from tidings.cli.main import load
from tidings.cli.serving import http_address
from tidings.cli.variables import COMMANDS, Configured, long_name
from tidings.inspector.catalog import Catalog, CatalogError, ServerEntry, find_clients, user_catalog

_LARGE: Final = 10**9


def catalog(place: CheckedPath) -> Iterator[Finding]:
    """Checks the catalog: the servers that have names for the inspector and the one-shot commands."""
    path = user_catalog(place.environ, place.platform, place.home)
    shown = tidied(path, place)
    try:
        entries, problems = Catalog(path, read_only=True).listing()
    except CatalogError as error:
        yield Finding("catalog", "wrong", str(error), f"Correct it in an editor, or move it away: {_away(path)}")
        return
    if not path.is_file():
        yield _none("catalog", path, place, "`tidings inspect` creates it", "servers cannot be added")
        return
    if (opened := _open_to_others(path, place)) is not None:
        yield Finding("catalog", "look", f"other users can read {shown}, and it may contain tokens.", opened)
    for problem in problems:
        yield Finding("catalog", "wrong", problem, f"Correct it in {shown}.")
    if (cure := _to_write(path)) is not None:
        yield Finding("catalog", "look", f"{shown} cannot be written, so servers cannot be added.", cure)
    yield Finding("catalog", "ok", f"{_servers(entries)} ({shown}).")
    yield from _startable("catalog", entries, place)


def journal(place: CheckedPath) -> Iterator[Finding]:
    """Checks the journal, in which the inspector records sessions."""
    from tidings._kit.sqlite_errors import Trouble
    from tidings.inspector.sessions.saved import JournalUnusable, default_path, existing_journal

    path = default_path()
    shown = tidied(path, place)
    if not path.exists():
        yield _none("journal", path, place, "the inspector creates it", "sessions cannot be recorded")
        return
    if (opened := _open_to_others(path, place)) is not None:
        yield Finding("journal", "look", f"other users can read {shown}, and it contains messages of servers.", opened)
    if (cure := _to_write(path)) is not None:  # SQLite needs write access to read it.
        yield Finding("journal", "wrong", f"{shown} cannot be written, so sessions cannot be recorded.", cure)
        return
    size = path.stat().st_size
    try:
        with closing(existing_journal(path)) as database:
            count = database.read(lambda connection: connection.execute("SELECT count(*) FROM sessions").fetchone()[0])
    except JournalUnusable as error:
        cure = "Use that version, or move the file away." if error.trouble is Trouble.NEWER else _away(path)
        yield Finding("journal", "wrong", str(error), cure)
        return
    words = f"{counted(count, 'session')}, {size_text(size)} ({shown})."
    cure = "Delete old sessions in the inspector, or the file." if size > _LARGE else ""
    yield Finding("journal", "look" if cure else "ok", words, cure)


def clients(place: CheckedPath) -> Iterator[Finding]:
    """Checks the servers in the files of AI clients."""
    found = find_clients(place.home, place.cwd, place.platform, place.environ)
    if not found:
        words = "no servers in Claude Desktop, Claude Code, VS Code or Cursor."
        cure = "`tidings vault PATH --config CLIENT` prints the configuration for a client."
        yield Finding("AI clients", "ok", words, cure)
    for each in found:
        where = tidied(each.path, place)
        if each.project is not None and each.project not in each.path.parents:
            where += f", for {tidied(each.project, place)}"
        if each.problem is not None:
            cure = f"Correct {tidied(each.path, place)}: {each.client} may not see its servers either."
            yield Finding(each.client, "wrong", each.problem, cure)
        if each.servers:
            yield Finding(each.client, "ok", f"{_servers(each.servers)} ({where}).")
            yield from _startable(each.client, each.servers, place)


def _startable(what: str, entries: Iterable[ServerEntry], place: CheckedPath) -> Iterator[Finding]:
    """Yields the servers whose program does not exist."""
    for entry in entries:
        command = entry.command
        if command is None or "$" in command:
            continue
        folder = place.cwd if entry.cwd is None else Path(entry.cwd).expanduser()
        path = entry.env.get("PATH") or place.environ.get("PATH", "")
        there = (folder / command).exists() if "/" in command else shutil.which(command, path=path) is not None
        if not there:
            words = f"{entry.name} cannot start: there is no program {command!r}."
            yield Finding(what, "look", words, "Install it, or write its full path in the file.")


def _servers(entries: Iterable[ServerEntry]) -> str:
    names = [entry.name for entry in entries]
    return f"{counted(len(names), 'server')}{': ' if names else ''}{listed(names)}"


def _away(path: Path) -> str:
    return f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.broken')}"


def _to_write(path: Path) -> str | None:
    """Returns the commands that let the user write a file and its folder; None if that is possible."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK):
        return None
    return "\n".join(owned(each) for each in (path.parent, path) if not os.access(each, os.W_OK))


def _none(what: str, path: Path, place: CheckedPath, creates: str, without: str) -> Finding:
    """Returns the finding for a file that does not exist: whether it can be created."""
    if (problem := not_writable(path.parent, place)) is not None:
        words, cure = problem
        return Finding(what, "look", f"none, and {tidied(path, place)} cannot be created: {words}; {without}.", cure)
    return Finding(what, "ok", f"none yet ({tidied(path, place)}); {creates}.")


def _open_to_others(path: Path, place: CheckedPath) -> str | None:
    """Returns the command that hides the file from other users; None if they cannot read it."""
    if place.platform == "win32" or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    return f"chmod 600 {shlex.quote(str(path))}"


TOKENS: Final = {  # Secrets, whose values are not shown
    "TIDINGS_TOKEN": "the token that your servers require from clients",
    "TIDINGS_BEARER_TOKEN": "the token that one-shot commands send to a server at a URL",
}
OTHERS: Final = {
    "TIDINGS_URI": "`tidings watch --exec` sets it for its command",
    "TIDINGS_WEB_PAGES": "the pages for the benchmark of the web server",
}

_SECRET: Final = ("--bus",)  # Options whose values may contain a password
_CHECKED_LATER: Final = {"--http": http_address}
"""Options that click does not check. (`--http PATH` is possible on a command line, not in a variable.)"""


def variables(place: CheckedPath) -> Iterator[Finding]:
    """Checks each variable whose name begins with TIDINGS_."""
    options = option_variables()
    known = [*TOKENS, *OTHERS, *options]
    ours = [name for name in sorted(place.environ) if name.upper().startswith("TIDINGS_")]
    if not ours:
        yield Finding("variables", "ok", "no variable of Tidings is set.")
    for name in ours:
        value = place.environ[name]
        if name in TOKENS:
            yield _token(name, value)
        elif name in OTHERS:
            yield Finding(name, "ok", f"set; {OTHERS[name]}.")
        elif name in options:
            yield _option(name, value, *options[name])
        else:
            cure = did_you_mean(name, known, show=str).strip() or f"unset {name}"
            yield Finding(name, "wrong", "there is no such variable, so it has no effect.", cure)


def option_variables() -> dict[str, tuple[Configured, click.Option]]:
    """Returns the variables of options except tokens, each with a command that has it and the option."""
    return {
        str(option.envvar): (command, option)
        for name in COMMANDS
        if isinstance(command := load(name), Configured)
        for option in command.params
        if isinstance(option, click.Option) and option.envvar and option.envvar not in TOKENS
    }


def _option(name: str, value: str, command: Configured, option: click.Option) -> Finding:
    use = f"it sets `tidings {command.name} {long_name(option)}`"
    if name.startswith("TIDINGS_LOG_"):
        use = f"it sets `{long_name(option)}`"
    try:
        if value:
            values = option.type.split_envvar_value(value) if option.multiple else value
            option.type_cast_value(click.Context(command), values)
            if check := _CHECKED_LATER.get(long_name(option)):
                check(value)
    except click.ClickException as error:
        words = f"{error.message.removeprefix(f'{long_name(option)}: ').rstrip('.')}; {use}."
        return Finding(name, "wrong", words, f"Correct it, or: unset {name}")
    return Finding(name, "ok", f"{'set, not shown' if long_name(option) in _SECRET else repr(value)}; {use}.")


def _token(name: str, value: str) -> Finding:
    use = TOKENS[name]
    if not value:
        return Finding(name, "look", f"empty; it is {use}.", f"Give it a value, or: unset {name}")
    if not (value.isascii() and value.isprintable()) or " " in value:
        words = "contains characters that cannot be sent. Use visible ASCII characters without spaces."
        return Finding(name, "wrong", words, "Set it again. Often the end of a line was copied with it.")
    return Finding(name, "ok", f"set ({len(value)} characters, not shown); it is {use}.")

"""`tidings install`: writes a server into the configuration files of AI clients, after the user has seen the change."""

import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from tidings._kit.diff import unified
from tidings._kit.files import read_file, replace_file, settings_folder
from tidings._kit.suggest import did_you_mean
from tidings._kit.text import harmless
from tidings.cli.client_config import CLIENTS, INSTALL, ClientServer, NotEditable, edited, has_server, server_name
from tidings.cli.exits import Refusal
from tidings.cli.main import load
from tidings.cli.oneshot import find_server
from tidings.cli.terminal import is_terminal, option, styled
from tidings.errors import BadTarget

_LARGEST = 64 * 2**20
_OURS = ("vault", "web", "bridge")


@click.command("install", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, metavar="(vault PATH | web | bridge TARGET | TARGET) [OPTIONS]")
@option("--client clients", "The client; may be repeated.", click.Choice([*CLIENTS]), multiple=True, required=True)
@option("--name=NAME", "The server's name in the client (default: the name of its folder).")
@option("--yes", "Write the change without asking.")
@click.pass_context
def command(
    ctx: click.Context, words: tuple[str, ...], clients: tuple[str, ...], name: str | None, *, yes: bool
) -> None:
    """Add a server to the configuration of an AI client.

    The command shows the change, and writes it after you agree. A copy of the old file stays next to it. After vault,
    web or bridge, give the options of that command. TARGET is any other server: a URL, a Python file, or a command. For
    example:

      tidings install vault ~/Notes --client claude-code

      tidings install https://example.com/mcp --client cursor --client zed
    """
    install = partial(_install, clients=clients, name=name, yes=yes)
    if words[0] in _OURS:
        ctx.meta[INSTALL] = install
        own = load(words[0])
        with own.make_context(words[0], [*words[1:], "--config", clients[0]], parent=ctx) as inner:
            own.invoke(inner)
        return
    try:
        entry = find_server(words[0] if len(words) == 1 else words, None).resolved(os.environ)
    except BadTarget as error:
        raise Refusal(error.message) from None
    title = server_name(entry.name or find_server(words[0], None).name)
    if entry.url is not None:
        install(ClientServer(title, url=entry.url))
        return
    program = shutil.which(entry.command or "")
    if program is None:
        raise Refusal(f"There is no program {harmless(entry.command or '')}.{did_you_mean(words[0], _OURS)}")
    argv = [str(Path(word).absolute()) if Path(word).is_file() else word for word in (program, *entry.args)]
    install(ClientServer(title, argv))


def _install(server: ClientServer, *, clients: tuple[str, ...], name: str | None, yes: bool) -> None:
    named = replace(server, name=name or server.name)
    home = Path.home()
    for client in (CLIENTS[each] for each in clients):
        path = client.file(home, settings_folder(os.environ, sys.platform, home))
        entry = client.entry(named)
        try:
            data, seen = read_file(path, _LARGEST) if path.exists() else (b"", None)
            old = data.decode()
            mark, ends = old[: old.startswith("\ufeff")], "\r\n" if "\r\n" in old else "\n"  # As Windows has them.
            old = old.removeprefix(mark).replace(ends, "\n")
            new = edited(old, client.form, client.section, named.name, entry)
        except (OSError, OverflowError, UnicodeDecodeError) as error:
            raise Refusal(f"{path} cannot be read: {error}.") from None
        except NotEditable as error:
            raise Refusal(f"{path} is left as it is. {error}. Correct it, then try again.") from None
        if new == old:
            click.echo(f"{client.title} already has this server: {named.name} in {path}.")
            continue
        click.echo(styled(f"{client.title}: {path}", "heading"))
        if has_server(old, client.form, client.section, named.name):
            text = f"It has another server called {named.name}, which this replaces. To keep both, give a --name."
            click.echo(styled(text, "note", sys.stderr), err=True)
        for line in unified(old.splitlines(), new.splitlines(), context=2):
            click.echo(styled(harmless(line), {"+": "good", "-": "bad", "@": "place"}.get(line[:1], "")))
        if not yes and not is_terminal(sys.stdin):
            raise Refusal("Nothing was written. Add --yes to write it without being asked.")
        if not yes and not click.confirm("Write this?", default=True, err=True):
            raise Refusal("Nothing was written.")
        kept = _write(path, mark + new.replace("\n", ends), seen)
        click.echo(f"Written: {named.name}.{kept} Restart {client.title} if it is running.")


def _write(path: Path, text: str, seen: os.stat_result | None) -> str:
    """Replaces a file, with a copy of the old one beside it. Returns where the copy is, in words."""
    target = Path(os.path.realpath(path))  # A link stays a link.
    backup = target.with_name(f"{target.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if seen is not None:
            shutil.copy2(target, backup)
        if not replace_file(target, text.encode(), seen):
            raise Refusal(f"Another program has just changed {path}. Try again.")
        if seen is not None:
            target.chmod(seen.st_mode & 0o7777)
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}.") from None
    return "" if seen is None else f" The old file is {backup}."

"""Shell completion: `tidings completion` sets it up, and the functions below it offer names.

The names are the servers of the catalog, and the tools, resources and prompts of the TARGET. The server is asked with a
short timeout, and its answer is cached for some minutes. Nothing is printed and no error is raised. A TARGET that is a
command is started, once it is typed in full.
"""

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click
from click.shell_completion import CompletionItem, add_completion_class, get_completion_class

from tidings.cli.conversation import Conversation, converse, summary_of
from tidings.cli.exits import Refusal
from tidings.cli.main import BashCompletion, main
from tidings.cli.oneshot import OneShotOptions, catalog, find_server, with_options
from tidings.inspector.records import LISTS

SHELLS = ("bash", "zsh", "fish")
CACHE_SECONDS: Final = 300.0
TIMEOUT: Final = 2.0

Names = list[tuple[str, str]]


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Install the script where the shell looks for it.")
def command(shell: str | None, *, install: bool) -> None:
    """Set up shell completion for commands, servers, tools and resources.

    Prints the completion script for bash, zsh or fish (by default, for your own shell). With --install, installs it
    instead. If bash has no bash-completion, --install adds a line to ~/.bashrc. Completion asks the server for the
    names of tools, resources and prompts, and caches them for five minutes.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise Refusal(f"Your shell is not known. Give one of {', '.join(SHELLS)}.")
    script = _script(shell)
    if not install:
        click.echo(script)
        return
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = {"bash": data / "bash-completion/completions/tidings", "zsh": data / "zsh/site-functions/_tidings"}
    file = places.get(shell, config / "fish/completions/tidings.fish")
    bashrc = Path.home() / ".bashrc"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(script + "\n")
        changed = shell == "bash" and not _has_bash_completion() and _add_to_bashrc(bashrc, file)
    except OSError as error:
        raise Refusal(f"Cannot write {error.filename or file}: {error.strerror}.") from None
    click.echo(f"Installed {file}", err=True)
    if changed:
        click.echo(f"Added a line to {bashrc} that loads it, because bash-completion is not active.", err=True)
    in_zsh = f"If it is not there yet, add this line to ~/.zshrc before compinit: fpath=({file.parent} $fpath)"
    click.echo(in_zsh if shell == "zsh" else "Open a new shell.", err=True)


def _has_bash_completion() -> bool:
    """Returns whether a new bash has bash-completion, which finds the file by itself. Only bash can tell."""
    program = ["bash", "-ic", "[[ -n ${BASH_COMPLETION_VERSINFO-} ]]"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            program,
            stdin=subprocess.DEVNULL,
            # Not pipes: what ~/.bashrc starts in the background would hold them open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # An interactive bash would take the terminal.
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _add_to_bashrc(bashrc: Path, file: Path) -> bool:
    """Lets each new bash load a file. Returns whether `bashrc` was changed."""
    name = shlex.quote(str(file))
    line = f"[ ! -r {name} ] || . {name}  # completion of tidings"
    text = bashrc.read_text("utf-8", "surrogateescape") if bashrc.exists() else ""
    if line in text.splitlines():
        return False
    with bashrc.open("a", encoding="utf-8") as opened:
        opened.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")
    return True


def _script(shell: str) -> str:
    add_completion_class(BashCompletion)
    kind = get_completion_class(shell)
    if kind is None:
        raise Refusal(f"There is no completion for {shell}.")
    try:
        script = kind(main, {}, "tidings", "_TIDINGS_COMPLETE").source()
    except RuntimeError as error:  # click checks the version of bash.
        raise Refusal(f"{error}") from None
    # URIs and descriptions may contain commas, too: only the first one is a separator.
    return script.replace('string split ","', 'string split --max 1 ","') if shell == "fish" else script


# Names


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
    return [CompletionItem(name, help=about[:60] or None) for name, about in matching[:500]]


tools = partial(_complete, "tools")
resources = partial(_complete, "resources")
prompts = partial(_complete, "prompts")


def _names(ctx: click.Context, kind: str) -> Names:
    given = ctx.params
    target: Any = given.get("target")
    if not target:
        return []
    headers, env = dict(given.get("headers") or []), dict(given.get("env") or [])
    cwd = given.get("cwd")
    entry = with_options(find_server(target, cwd), headers, given.get("token"), env, cwd)
    identity = json.dumps([entry.command, entry.args, sorted(entry.env.items()), entry.cwd, entry.url, kind])
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings/completion"
    file = folder / f"{hashlib.sha256(identity.encode()).hexdigest()}.json"
    with contextlib.suppress(OSError, ValueError, TypeError):
        if time.time() - file.stat().st_mtime <= CACHE_SECONDS:
            pairs = cast("list[list[str]]", json.loads(file.read_text("utf-8")))
            return [(str(name), str(about)) for name, about in pairs]
    found: Names = []

    def ask(conversation: Conversation) -> None:
        items = conversation.load_if_any(LISTS[kind]).items
        found.extend((str(item[LISTS[kind].id]), summary_of(item)) for item in items)

    converse(OneShotOptions(entry, era=given.get("era") or "auto", timeout=TIMEOUT), ask)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = file.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(found), "utf-8")
        scratch.replace(file)
    return found

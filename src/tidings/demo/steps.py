"""The words of the tour: its steps, and what to take home. The page and the terminal say the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

QUESTION: Final = "flour"
"""What the second step searches for."""


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str
    title: str
    words: str
    """What to do, and what it shows."""
    action: str
    """What the button says that does it."""
    place: str
    """The file or the address that it is about, or what happens."""
    is_path: bool = False
    """Whether that is to be copied."""
    server: str = "vault"
    """Where it can be seen: a server and a screen of the inspector."""
    screen: str = "live"


def steps(plan: Path, page: str) -> tuple[Step, ...]:
    """The steps that can be seen to have happened, in order."""
    return (
        Step(
            "edit",
            "Edit a note",
            "Open this file in any editor, change a line and save it. The server sees the file, tells whoever watches "
            "it, and the inspector reads it again: Live shows what changed, and how long each hop took.",
            "Edit it for me",
            str(plan),
            is_path=True,
        ),
        Step(
            "ask",
            "Ask a tool",
            f"Agents find things with tools. Search the vault for “{QUESTION}”: it answers from an index that is never "
            "behind the files.",
            "Search for me",
            f"search {QUESTION}",
            screen="requests",
        ),
        Step(
            "page",
            "Change a web page",
            "A second server watches this page of a small site. When its content changes, not merely its bytes, its "
            "readers are told, and read the difference.",
            "Change it for me",
            page,
            is_path=True,
            server="web",
        ),
        Step(
            "kill",
            "Kill the server",
            "The server of the vault is killed, and while it is gone the note is edited again. After two seconds it is "
            "started anew. Do nothing: the inspector notices, comes back by itself, and has what it missed.",
            "Kill it for me",
            "kill -9 of the vault server",
        ),
    )


@dataclass(frozen=True)
class Snippet:
    """Something to take home."""

    title: str
    text: str


LAST_TITLE: Final = "Use it"
LAST_WORDS: Final = "With your own notes, your own server, your own agent:"


def snippets(vault_url: str, plan_uri: str) -> tuple[Snippet, ...]:
    """The three ways to use Tidings. The agent's works at once, with this vault."""
    return (
        Snippet("Your notes, in Claude and others", "tidings vault ~/Notes --config claude-desktop"),
        Snippet(
            "Your server, made live",
            'live = tidings.attach(server)  # SDK or FastMCP\nawait live.notify.resource_updated("note://1")',
        ),
        Snippet(
            "Your agent, never stale",
            f'async with tidings.connect("{vault_url}") as client:\n'
            f'    async for note in client.watch("{plan_uri}"):\n'
            "        print(note.text)",
        ),
    )

"""The tools of a vault, as a server offers them: which there are, and what their schemas look like.

What they do is in `tools_read.py` and `tools_write.py`; a method's docstring is what an agent is told of it. A server
that may not write does not offer those that do.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcp_types import ToolAnnotations

from tidings.server.schemas import compact_tool
from tidings.vault.tools.tools_read import ReadTools
from tidings.vault.tools.tools_write import WriteTools

if TYPE_CHECKING:
    from tidings.vault.server import VaultServer


WRITING: Final = ("write", "edit", "append", "move", "delete", "rename_tag")
"""The tools that a server has not that may not write."""


class Offer(NamedTuple):
    """A tool: the function that does it, and what a client may want to know before it lets an agent call it."""

    function: Callable[..., Any]
    title: str
    destructive: bool = False
    """Whether it can undo what somebody wrote; otherwise it only adds."""
    idempotent: bool = False
    """Whether doing it twice is the same as doing it once."""


def register(server: "VaultServer") -> None:
    """Add the tools to a server."""
    read = ReadTools(server.library, server.texts)
    looking = (
        Offer(read.search, "Search the vault"),
        Offer(read.read, "Read notes"),
        Offer(read.links, "Follow links"),
        Offer(read.tags, "List tags"),
        Offer(read.recent, "See what changed last"),
        Offer(read.structure, "List folders and files"),
        Offer(read.info, "Get facts of a note or the vault"),
    )
    for offer in looking:
        _add(server, offer, ToolAnnotations(read_only_hint=True, open_world_hint=False))
    if server.read_only:
        _add(
            server,
            Offer(read.daily_note, "Open a daily note"),
            ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        return
    write = WriteTools(server.library, server.texts)
    for offer in (
        Offer(write.daily_note, "Open a daily note"),
        Offer(write.write, "Write a note", destructive=True, idempotent=True),
        Offer(write.edit, "Edit a note", destructive=True),
        Offer(write.append, "Add to a note"),
        Offer(write.move, "Move or rename", destructive=True),
        Offer(write.delete, "Delete to the trash", destructive=True),
        Offer(write.rename_tag, "Rename a tag everywhere", destructive=True, idempotent=True),
    ):
        hints = ToolAnnotations(
            read_only_hint=False,
            destructive_hint=offer.destructive,
            idempotent_hint=offer.idempotent,
            open_world_hint=False,
        )
        _add(server, offer, hints)


def _add(server: "VaultServer", offer: Offer, hints: ToolAnnotations) -> None:
    told = " ".join((inspect.getdoc(offer.function) or "").split())
    server.add_tool(offer.function, title=offer.title, description=told, annotations=hints)
    compact_tool(server, offer.function.__name__)

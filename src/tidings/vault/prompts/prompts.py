"""The prompts of a vault, registered.

Each includes what the index knows (open tasks, similar tags, notes that may belong together), so that the model judges
and writes, and need not search. The size is bounded. Clients see the docstrings of the methods.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ContentBlock
from pydantic import Field

from tidings.vault.library import VaultLibrary
from tidings.vault.prompts import briefs, links
from tidings.vault.view import VaultView

Content = list[ContentBlock]

_DAY: Final = "A date such as 2026-01-31, or 'today'."


def register(server: MCPServer[Any], library: VaultLibrary) -> None:
    """Adds the prompts to a server."""
    prompts = Prompts(library)
    for title, function in (
        ("Plan the day", prompts.daily_note),
        ("Tidy tags", prompts.tidy_tags),
        ("Summarise recent notes", prompts.summarise_recent),
        ("Suggest links", prompts.suggest_links),
    ):
        server.prompt(title=title, description=" ".join((function.__doc__ or "").split()))(function)


class Prompts:
    """The prompts as methods."""

    def __init__(self, library: VaultLibrary) -> None:
        self._library = library

    async def daily_note(self, date: Annotated[str, Field(description=_DAY)] = "today") -> Content:
        """Plan a day in its daily note, from what the last one left open and the notes that changed last."""
        return await self._ask(lambda view: briefs.brief(view, date))

    async def tidy_tags(
        self, tag: Annotated[str, Field(description="Only this tag and those nested in it; all if left out.")] = ""
    ) -> Content:
        """Find tags that mean the same (misspelt, singular and plural, written differently), and merge them."""
        return await self._ask(lambda view: briefs.tags_brief(view, tag))

    async def summarise_recent(
        self,
        count: Annotated[str, Field(description="How many notes at most, up to 50; 10 if left out.")] = "",
        since: Annotated[str, Field(description=f"Only what changed on this day or later. {_DAY}")] = "",
    ) -> Content:
        """Summarise the notes that changed last, or since a day."""
        return await self._ask(lambda view: briefs.recent_brief(view, count, since))

    async def suggest_links(
        self,
        path: Annotated[str, Field(description="The note: its path, or its bare name.")],
        heading: Annotated[str, Field(description="Only the section with this heading; all if left out.")] = "",
    ) -> Content:
        """Suggest links between a note and others: names that it mentions, notes that mention it, and notes with the
        same tags or words.
        """
        return await self._ask(lambda view: links.brief(view, path, heading))

    async def _ask(self, question: Callable[[VaultView], Content]) -> Content:
        try:
            return await self._library.ask(question)
        except (LookupError, ValueError) as error:
            # The words are for whoever chose the arguments. Of other errors the SDK tells them nothing.
            raise MCPError(INVALID_PARAMS, str(error)) from error

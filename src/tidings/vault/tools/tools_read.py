"""The tools that look at a vault: what an agent can ask, and how it is told of it.

The docstrings and descriptions are read by language models, which pay for each word: they teach the format, with an
example, and no more. The answers are made in `answers.py` and `reading.py`.
"""

from typing import Annotated, Any, Literal

from mcp_types import CallToolResult
from pydantic import AliasChoices, BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from tidings.vault.files.texts import Texts
from tidings.vault.files.write_errors import ReadOnly
from tidings.vault.library import Library
from tidings.vault.tools import answers, reading
from tidings.vault.tools.answers import Span
from tidings.vault.tools.refusals import refusals_told
from tidings.vault.tools.results import Found, Info, Links, Pieces, Recent, Structure, Tags


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Limit = Annotated[int, Field(ge=1, le=500)]
Offset = Annotated[int, Field(ge=0)]
MaxTokens = Annotated[int, Field(ge=1, le=1_000_000, description="What does not fit is named, not cut silently")]
Section = Annotated[str, Field(description="Heading, as in 'Tasks' or 'Plan#Tasks'")]
Paths = Annotated[
    list[str],
    BeforeValidator(_as_list),
    Field(validation_alias=AliasChoices("paths", "path"), description="As in ['Projects/Plan.md'] or ['Plan']"),
]
Day = Annotated[str, Field(description="As in '2026-01-31', 'yesterday' or 'tomorrow'")]


class ReadTools:
    """What can be asked of a library."""

    def __init__(self, library: Library, texts: Texts) -> None:
        self._library = library
        self._texts = texts

    async def search(
        self,
        *,
        query: str,
        limit: Limit = 20,
        offset: Offset = 0,
        sort: Literal["relevance", "modified", "path"] = "relevance",
    ) -> Annotated[CallToolResult, Found]:
        """Find notes, with the lines that match, by Obsidian's search syntax: budget "last year" OR plan -draft,
        tag:#work, path:Projects, file:Plan, [status:done], [rating:>3], [due:<2026-05-01], task-todo:call,
        line:(a b), section:(a b), /regex/, modified:7d, in:Folder, has:todo, kind:canvas.
        """
        with refusals_told():
            return await self._library.ask(
                lambda view: answers.search(view, query, sort, Span(limit, offset)), search=True
            )

    async def read(
        self,
        *,
        paths: Paths,
        section: Section = "",
        block: Annotated[str, Field(description="Block id, as in '^abc123'")] = "",
        lines: Annotated[str, Field(description="As in '12-40' or '12-'")] = "",
        max_tokens: MaxTokens = 8000,
    ) -> Annotated[CallToolResult, Pieces]:
        """Read notes, or one section, block or range of lines of each. Each comes with its `version`, for `if_match`
        when you change it.
        """
        chosen = reading.Chosen(section=section, block=block, lines=lines)
        with refusals_told():
            return await self._library.ask(lambda view: reading.read(view, self._texts, paths, chosen, max_tokens))

    async def links(
        self,
        *,
        direction: Annotated[
            Literal["back", "out", "broken", "orphans", "path"],
            Field(
                description="back: links to `path`; out: links in it; broken: links that lead nowhere (of `path` or of "
                "all); orphans: notes without links; path: the shortest way from `path` to `to`"
            ),
        ],
        path: str = "",
        to: str = "",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Annotated[CallToolResult, Links]:
        """Follow links between notes."""
        with refusals_told():
            return await self._library.ask(lambda view: answers.links(view, direction, path, to, Span(limit, offset)))

    async def tags(
        self,
        *,
        tag: Annotated[str, Field(description="List the notes that have this tag, or one below it")] = "",
        prefix: Annotated[str, Field(description="Only tags that begin so, as in 'project/'")] = "",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Annotated[CallToolResult, Tags]:
        """List all tags with the number of their notes, the most used first; or the notes of one tag."""
        with refusals_told():
            return await self._library.ask(lambda view: answers.tags(view, tag, prefix, Span(limit, offset)))

    async def recent(self, *, limit: Limit = 20, offset: Offset = 0) -> Annotated[CallToolResult, Recent]:
        """List the notes that were changed last, the newest first."""
        with refusals_told():
            return await self._library.ask(lambda view: answers.recent(view, Span(limit, offset)))

    async def structure(
        self,
        *,
        folder: Annotated[str, Field(description="As in 'Projects'; all if empty")] = "",
        depth: Annotated[int, Field(ge=1, le=20, description="Levels of folders")] = 2,
        limit: Limit = 200,
    ) -> Annotated[CallToolResult, Structure]:
        """Show the tree of folders with the number of notes in each, and the files of `folder` itself."""
        with refusals_told():
            return await self._library.ask(lambda view: answers.structure(view, folder, depth, limit))

    async def info(self, *, path: str = "") -> Annotated[CallToolResult, Info]:
        """Get the facts of a note without its text: version, properties, tags, outline, blocks, tasks, links. Without
        a path, those of the vault: counts, properties in use, state of the index.
        """
        with refusals_told():
            return await self._library.ask(lambda view: reading.info(view, path))

    async def daily_note(
        self,
        *,
        date: Day = "today",
        max_tokens: MaxTokens = 8000,
        append: SkipJsonSchema[str] = "",
        create: SkipJsonSchema[bool] = False,
    ) -> Annotated[CallToolResult, Pieces]:
        """Read a daily note."""
        # Whoever knows the tool from a server that writes may ask for more than is offered here.
        with refusals_told():
            if append:
                raise ReadOnly("This vault is read-only: nothing can be added to its notes. Leave out append.")
            day = reading.parse_day(date)
            cure = "This vault is read-only, so that it cannot be created." if create else ""
            return await self._library.ask(lambda view: reading.daily(view, self._texts, day, max_tokens, cure=cure))

"""The tools of a vault, as agents see them, and their registration.

The docstrings and descriptions are read by language models, which pay for each word: they teach the format with an
example, and no more. Nothing is overwritten that the agent has not seen: `if_match` is the version it has read. A
read-only server does not offer the tools that write.
"""

import datetime as dt
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from anyio import from_thread
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import AliasChoices, BeforeValidator, Field

from tidings._kit.text import counted
from tidings.server.exact_calls import ExactServer, ToolFunction
from tidings.vault.files.content import Texts
from tidings.vault.files.outcomes import Conflict
from tidings.vault.index import graph
from tidings.vault.library import VaultLibrary
from tidings.vault.notes.sections import EditRefused
from tidings.vault.tools import lookup, read, results, write
from tidings.vault.tools.lookup import ResultRange
from tidings.vault.tools.results import refusals_told
from tidings.vault.tools.write import Edit, IndexReferences

WRITING: Final = ("write", "edit", "append", "move", "delete", "rename_tag", "undo")
"""The tools that a read-only server does not offer."""

Limit = Annotated[int, Field(ge=1, le=500)]
Offset = Annotated[int, Field(ge=0)]
MaxTokens = Annotated[int, Field(ge=1, le=1_000_000, description="What does not fit is named, not cut silently")]
Section = Annotated[str, Field(description="Heading, as in 'Tasks' or 'Plan#Tasks'")]
Paths = Annotated[
    list[str],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    Field(validation_alias=AliasChoices("paths", "path"), description="As in ['Projects/Plan.md'] or ['Plan']"),
]
IfMatch = Annotated[str, Field(description="Version you have read; refuses if the note is different now")]
DryRun = Annotated[bool, Field(description="Only say what would change")]
Period = Literal["daily", "weekly", "monthly", "quarterly", "yearly"]
Day = Annotated[str, Field(description="As in '2026-01-31', 'yesterday' or 'tomorrow'")]


@dataclass(frozen=True)
class ReadTools:
    """The tools that read."""

    library: VaultLibrary
    texts: Texts

    async def search(
        self,
        *,
        query: str,
        limit: Limit = 20,
        offset: Offset = 0,
        sort: Literal["relevance", "modified", "path"] = "relevance",
        by_meaning: bool = False,
    ) -> Annotated[CallToolResult, results.SearchResult]:
        """Find notes, with the lines that match, by Obsidian's search syntax: budget "last year" OR plan -draft,
        tag:#work, path:Projects, file:Plan, [status:done], [rating:>3], [due:<2026-05-01], task-todo:call,
        line:(a b), section:(a b), /regex/, modified:7d, in:Folder, has:todo, kind:canvas. by_meaning also finds other
        words for the same.
        """
        span = ResultRange(limit, offset)
        found = partial(lookup.search, query=query, sort=sort, span=span, by_meaning=by_meaning)
        return await self.library.ask(found, search=True)

    async def read(
        self,
        *,
        paths: Paths,
        section: Section = "",
        block: Annotated[str, Field(description="Block id, as in '^abc123'")] = "",
        lines: Annotated[str, Field(description="As in '12-40' or '12-'")] = "",
        max_tokens: MaxTokens = 8000,
    ) -> CallToolResult:
        """Read notes, or one section, block or range of lines of each. Each comes with its `version`, for `if_match`
        when you change it. Shows the rows of bases (section: a view), canvases, images.
        """
        chosen = read.ChosenNotes(section=section, block=block, lines=lines)
        return await self.library.ask(lambda view: read.read(view, self.texts, paths, chosen, max_tokens))

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
    ) -> Annotated[CallToolResult, results.LinksResult]:
        """Follow links between notes."""
        return await self.library.ask(lambda view: lookup.links(view, direction, path, to, ResultRange(limit, offset)))

    async def tags(
        self,
        *,
        tag: Annotated[str, Field(description="List the notes that have this tag, or one below it")] = "",
        prefix: Annotated[str, Field(description="Only tags that begin so, as in 'project/'")] = "",
        limit: Limit = 100,
        offset: Offset = 0,
    ) -> Annotated[CallToolResult, results.Tags]:
        """List all tags with the number of their notes, the most used first; or the notes of one tag."""
        return await self.library.ask(lambda view: lookup.tags(view, tag, prefix, ResultRange(limit, offset)))

    async def recent(self, *, limit: Limit = 20, offset: Offset = 0) -> Annotated[CallToolResult, results.Recent]:
        """List the notes that were changed last, the newest first."""
        return await self.library.ask(lambda view: lookup.recent(view, ResultRange(limit, offset)))

    async def structure(
        self,
        *,
        folder: Annotated[str, Field(description="As in 'Projects'; all if empty")] = "",
        depth: Annotated[int, Field(ge=1, le=20, description="Levels of folders")] = 2,
        limit: Limit = 200,
    ) -> Annotated[CallToolResult, results.Structure]:
        """Show the tree of folders with the number of notes in each, and the files of `folder` itself."""
        return await self.library.ask(lambda view: lookup.structure(view, folder, depth, limit))

    async def info(self, *, path: str = "") -> Annotated[CallToolResult, results.Info]:
        """Get the facts of a note without its text: version, properties, tags, outline, blocks, tasks, links. Without
        a path, those of the vault: counts, properties in use, state of the index.
        """
        return await self.library.ask(lambda view: read.info(view, self.texts, path))

    async def daily_note(
        self, *, date: Day = "today", period: Period = "daily", max_tokens: MaxTokens = 8000
    ) -> CallToolResult:
        """Read a daily note, or that of a week, month, quarter or year."""
        day = read.parse_day(date)
        return await self.library.ask(lambda view: read.periodic(view, self.texts, day, period, max_tokens))


class WriteTools(ReadTools):
    """The tools of a vault that may be written."""

    async def write(
        self, *, path: str, content: str, if_match: IfMatch = "", overwrite: bool = False
    ) -> Annotated[CallToolResult, results.WriteResult]:
        """Create a note, as in path='Projects/Plan.md', with its folders. One that exists is replaced only with
        `if_match` or overwrite=true; to change a part, use `edit`.
        """
        place = await self.library.ask(lambda view: lookup.to_create(view, path))
        done = await self.library.write(lambda w: w.write(place, content, if_match=if_match, overwrite=overwrite))
        return write.written(done, "Replaced")

    async def edit(
        self, *, path: str, edits: list[Edit], if_match: IfMatch = ""
    ) -> Annotated[CallToolResult, results.WriteResult]:
        """Change parts of a note, all or none; everything else stays byte for byte. As in
        [{"find": "teh", "content": "the"}, {"section": "Tasks", "content": "- [ ] call"},
        {"property": "status", "value": "done"}, {"lines": "3-5", "content": ""}].
        """
        place = await self.library.ask(lambda view: lookup.surely(view, path))
        parsed = write.parse_edits(edits)
        done = await self.library.write(lambda writer: writer.edit(place, parsed, if_match=if_match))
        return write.written(done, "Edited", with_diff=True)

    async def append(
        self,
        *,
        path: str,
        content: str,
        where: Literal["end", "start", "section"] = "end",
        section: Section = "",
        create: Annotated[bool, Field(description="Create a note or section that is missing")] = False,
        if_match: IfMatch = "",
    ) -> Annotated[CallToolResult, results.WriteResult]:
        """Add text to a note: at its end, at its start (after the properties), or at the end of a section."""
        if where == "section" and not section.strip():
            raise EditRefused("Which section? Give its heading, as in section='Tasks'.")
        if where == "start" and section:
            raise EditRefused("Give a section, or where='start', not both.")
        place = await self.library.ask(lambda view: lookup.to_add_to(view, path, create=create))
        how = {"create": create, "at_start": where == "start"}
        done = await self.library.write(lambda w: w.append(place, content, if_match=if_match, section=section, **how))
        return write.written(done, "Added to")

    async def move(
        self, *, path: str, to: str, ctx: Context, if_match: IfMatch = "", dry_run: DryRun = False
    ) -> Annotated[CallToolResult, results.MoveResult]:
        """Move or rename a note, another file or a folder, as in to='Archive/' or to='Archive/Plan 2025', and update
        every link to it.
        """

        async def found(files: int) -> None:
            await ctx.report_progress(0, files, f"{files:,} files have links to look at")

        await self._settled(ctx)
        place = await self.library.ask(lambda view: lookup.surely_any(view, path))
        new = await self.library.ask(lambda view: lookup.destination(view, place, to))
        references = IndexReferences(self.library, found)
        done = await self.library.write(
            lambda writer: writer.move(place, new, references=references, if_match=if_match, dry_run=dry_run)
        )
        file = await self.library.ask(lambda view: view.queries.file(place if dry_run else done.to))
        return write.moved(done, file.hash if file else None, dry_run=dry_run)

    async def delete(
        self,
        *,
        path: str,
        recursive: Annotated[bool, Field(description="Also a folder that is not empty")] = False,
        if_match: IfMatch = "",
    ) -> Annotated[CallToolResult, results.DeleteResult]:
        """Put a note, another file or a folder into the vault's trash (.trash)."""
        place = await self.library.ask(lambda view: lookup.surely_any(view, path))
        links = await self.library.ask(lambda view: len(graph.backlinks(view.queries, place)))
        done = await self.library.write(lambda writer: writer.delete(place, if_match=if_match, recursive=recursive))
        said = f"Deleted {done.path}. It is in {done.trash} now."
        if links:
            said += f" {counted(links, 'link')} to it lead{'' if links > 1 else 's'} nowhere now."
        return results.answer(said, {"path": done.path, "trash": done.trash, "done": said})

    async def rename_tag(
        self,
        *,
        tag: str,
        to: str,
        ctx: Context,
        if_match: Annotated[str, Field(description="Version that dry_run gave; refuses if notes differ now")] = "",
        dry_run: DryRun = False,
    ) -> Annotated[CallToolResult, results.ChangeResult]:
        """Rename a tag, and those below it, in all notes and properties, as in tag='todo', to='task'."""
        await self._settled(ctx)
        notes, version = await self.library.ask(lambda view: write.tagged(view, tag, if_match))

        def progress(count: int) -> None:
            from_thread.run(ctx.report_progress, count, len(notes), f"{count:,} of {len(notes):,} notes")

        done = await self.library.write(lambda w: w.rename_tag(tag, to, notes, dry_run=dry_run, progress=progress))
        return write.retagged(tag, to, done, would_be=version if dry_run else None)

    async def undo(
        self, *, change: Annotated[str, Field(description="Its id in vault://history, or a path that it changed")] = ""
    ) -> Annotated[CallToolResult, results.ChangeResult]:
        """Undo your last write, or an earlier `change`: also brings back what was deleted. Refuses if a file has
        changed since.
        """
        done = await self.library.write(lambda writer: writer.undo(change))
        return write.changed(f"Undid: {done.did}.", done.touched)

    async def daily_note(
        self,
        *,
        date: Day = "today",
        period: Period = "daily",
        append: Annotated[str, Field(description="Text to add at the end; creates the note")] = "",
        create: Annotated[bool, Field(description="Create it from the app's template if missing")] = False,
        if_match: IfMatch = "",
        max_tokens: MaxTokens = 8000,
    ) -> CallToolResult:
        """Read, create or add to a daily (or other periodic) note, where the app's settings have it."""
        day, note = read.parse_day(date), ""
        path = await self.library.ask(lambda view: read.periodic_path(view, day, period))
        if path is None and (create or append):
            now = dt.datetime.now().astimezone()
            new, text, note = await self.library.ask(lambda view: write.periodic_start(view, day, period, now, append))
            if if_match:
                raise Conflict(new, if_match, None)
            await self.library.write(lambda writer: writer.write(new, text))
        elif path is not None and append:
            await self.library.write(lambda writer: writer.append(path, append, if_match=if_match))
        cure = "Create it with create=true."
        return await self.library.ask(
            lambda view: read.periodic(view, self.texts, day, period, max_tokens, cure=cure, note=note)
        )

    async def _settled(self, ctx: Context) -> None:
        """Waits until the index is complete: a change everywhere must not miss a note."""
        if self.library.status.phase == "indexing":
            await ctx.report_progress(0, None, "Waiting for the index to be complete")
            await self.library.settled()


def register(server: ExactServer, library: VaultLibrary, texts: Texts, *, read_only: bool) -> None:
    """Adds the tools to a server."""

    def add(tool: ToolFunction, title: str, *, destroys: bool | None = None, idempotent: bool = False) -> None:
        """Adds a tool that writes if `destroys` is given."""
        reads = destroys is None
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=destroys, open_world_hint=False)
        hints.idempotent_hint = None if reads else idempotent
        server.add_documented_tool(tool, title, hints, refusals_told)

    tools = ReadTools(library, texts) if read_only else WriteTools(library, texts)
    add(tools.search, "Search the vault")
    add(tools.read, "Read notes")
    add(tools.links, "Follow links")
    add(tools.tags, "List tags")
    add(tools.recent, "See what changed last")
    add(tools.structure, "List folders and files")
    add(tools.info, "Get facts of a note or the vault")
    add(tools.daily_note, "Open a daily note", destroys=None if read_only else False)
    if isinstance(tools, WriteTools):
        add(tools.write, "Write a note", destroys=True, idempotent=True)
        add(tools.edit, "Edit a note", destroys=True)
        add(tools.append, "Add to a note", destroys=False)
        add(tools.move, "Move or rename", destroys=True)
        add(tools.delete, "Delete to the trash", destroys=True)
        add(tools.rename_tag, "Rename a tag everywhere", destroys=True, idempotent=True)
        add(tools.undo, "Undo a write", destroys=True)

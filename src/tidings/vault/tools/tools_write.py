"""The tools that change a vault: what an agent can do, and how it is told of it.

Nothing is overwritten that the agent has not seen: `if_match` is the version it has read. The docstrings and
descriptions are read by language models; see `tools_read.py`.
"""

import datetime as dt
from typing import Annotated, Final, Literal

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from tidings.vault.files.outcomes import Retagged
from tidings.vault.files.texts import Texts
from tidings.vault.files.write_errors import Conflict
from tidings.vault.index import graph
from tidings.vault.library import Library
from tidings.vault.tools import naming, reading, write_answers
from tidings.vault.tools.references import IndexReferences
from tidings.vault.tools.refusals import refusals_told
from tidings.vault.tools.results import Deleted, Moved, Pieces, Renamed, Written
from tidings.vault.tools.tools_read import Day, MaxTokens, Section
from tidings.vault.tools.write_answers import Edit

IfMatch = Annotated[str, Field(description="Version you have read; refuses if the note is different now")]

DryRun = Annotated[bool, Field(description="Only say what would change")]

_BATCH: Final = 100
"""How many notes are changed before progress is told, and others have their turn."""


class WriteTools:
    """What can be done to a library."""

    def __init__(self, library: Library, texts: Texts) -> None:
        self._library = library
        self._texts = texts

    async def write(
        self, *, path: str, content: str, if_match: IfMatch = "", overwrite: bool = False
    ) -> Annotated[CallToolResult, Written]:
        """Create a note, as in path='Projects/Plan.md', with its folders. One that exists is replaced only with
        `if_match` or overwrite=true; to change a part, use `edit`.
        """
        with refusals_told():
            place = await self._library.ask(lambda view: naming.to_create(view, path))
            done = await self._library.write(
                lambda writer: writer.write(place, content, if_match=if_match or None, overwrite=overwrite)
            )
            return write_answers.written(done, "Replaced")

    async def edit(self, *, path: str, edits: list[Edit], if_match: IfMatch = "") -> Annotated[CallToolResult, Written]:
        """Change parts of a note, all or none; everything else stays byte for byte. As in
        [{"find": "teh", "content": "the"}, {"section": "Tasks", "content": "- [ ] call"},
        {"property": "status", "value": "done"}, {"lines": "3-5", "content": ""}].
        """
        with refusals_told():
            place = await self._library.ask(lambda view: naming.surely(view, path))
            parsed = write_answers.parse_edits(edits)
            done = await self._library.write(lambda writer: writer.edit(place, parsed, if_match=if_match or None))
            return write_answers.written(done, "Edited", with_diff=True)

    async def append(
        self,
        *,
        path: str,
        content: str,
        where: Literal["end", "start", "section"] = "end",
        section: Section = "",
        create: Annotated[bool, Field(description="Create a note or section that is missing")] = False,
        if_match: IfMatch = "",
    ) -> Annotated[CallToolResult, Written]:
        """Add text to a note: at its end, at its start (after the properties), or at the end of a section."""
        with refusals_told():
            heading = write_answers.heading_for(where, section)
            place = await self._library.ask(lambda view: naming.to_add_to(view, path, create=create))
            done = await self._library.write(
                lambda writer: (writer.prepend if where == "start" else writer.append)(
                    place, content, if_match=if_match or None, create=create, section=heading
                )
            )
            return write_answers.written(done, "Added to")

    async def move(
        self, *, path: str, to: str, ctx: Context, if_match: IfMatch = "", dry_run: DryRun = False
    ) -> Annotated[CallToolResult, Moved]:
        """Move or rename a note, another file or a folder, as in to='Archive/' or to='Archive/Plan 2025', and update
        every link to it.
        """

        async def found(files: int) -> None:
            await ctx.report_progress(0, files, f"{files:,} files have links to look at")

        with refusals_told():
            await self._settled(ctx)
            place = await self._library.ask(lambda view: naming.surely_any(view, path))
            new = await self._library.ask(lambda view: naming.destination(view, place, to))
            references = IndexReferences(self._library, found)
            done = await self._library.write(
                lambda writer: writer.move(
                    place, new, references=references, if_match=if_match or None, dry_run=dry_run
                )
            )
            file = await self._library.ask(lambda view: view.queries.file(place if dry_run else done.to))
            return write_answers.moved(done, file.hash if file else None, dry_run=dry_run)

    async def delete(
        self,
        *,
        path: str,
        recursive: Annotated[bool, Field(description="Also a folder that is not empty")] = False,
        if_match: IfMatch = "",
    ) -> Annotated[CallToolResult, Deleted]:
        """Put a note, another file or a folder into the vault's trash (.trash)."""
        with refusals_told():
            place = await self._library.ask(lambda view: naming.surely_any(view, path))
            links = await self._library.ask(lambda view: len(graph.backlinks(view.queries, place)))
            done = await self._library.write(
                lambda writer: writer.delete(place, if_match=if_match or None, recursive=recursive)
            )
            return write_answers.deleted(done, links)

    async def rename_tag(
        self,
        *,
        tag: str,
        to: str,
        ctx: Context,
        if_match: Annotated[str, Field(description="Version that dry_run gave; refuses if notes differ now")] = "",
        dry_run: DryRun = False,
    ) -> Annotated[CallToolResult, Renamed]:
        """Rename a tag, and those below it, in all notes and properties, as in tag='todo', to='task'."""
        with refusals_told():
            await self._settled(ctx)
            notes, version = await self._library.ask(lambda view: write_answers.tagged(view, tag, if_match or None))
            outcomes: list[Retagged] = []
            for start in range(0, len(notes), _BATCH):
                await ctx.report_progress(start, len(notes), f"{start:,} of {len(notes):,} notes")
                batch = notes[start : start + _BATCH]
                outcomes.append(
                    await self._library.write(
                        lambda writer, batch=batch: writer.rename_tag(tag, to, batch, dry_run=dry_run)
                    )
                )
            return write_answers.retagged(tag, to, outcomes, would_be=version if dry_run else None)

    async def daily_note(
        self,
        *,
        date: Day = "today",
        append: Annotated[str, Field(description="Text to add at the end; creates the note")] = "",
        create: Annotated[bool, Field(description="Create it from the app's template if missing")] = False,
        if_match: IfMatch = "",
        max_tokens: MaxTokens = 8000,
    ) -> Annotated[CallToolResult, Pieces]:
        """Read a daily note, create it, or add to it, where the app's own settings have it."""
        with refusals_told():
            day = reading.parse_day(date)
            path = await self._library.ask(lambda view: reading.daily_path(view, day))
            note = ""
            if path is None and (create or append):
                note = await self._begin_day(day, append, if_match)
            elif path is not None and append:
                await self._library.write(lambda writer: writer.append(path, append, if_match=if_match or None))
            cure = "Create it with create=true."
            return await self._library.ask(
                lambda view: reading.daily(view, self._texts, day, max_tokens, cure=cure, note=note)
            )

    async def _begin_day(self, day: dt.date, append: str, if_match: str) -> str:
        """Create a daily note as the app would, and give what should be known of it."""
        now = dt.datetime.now().astimezone()
        path, text, note = await self._library.ask(lambda view: write_answers.daily_start(view, day, now, append))
        if if_match:
            raise Conflict(path, if_match, None)
        await self._library.write(lambda writer: writer.write(path, text, create="only"))
        return note

    async def _settled(self, ctx: Context) -> None:
        """Wait until the index knows all notes: who changes something everywhere must not miss one."""
        if self._library.status.phase == "indexing":
            await ctx.report_progress(0, None, "Waiting for the index to be complete")
            await self._library.settled()

"""The prompts of a vault: planning a day, and summarising recent changes.

Each includes the notes that matter, so that the model judges and writes, and need not search. The size is bounded.
Clients see the docstrings of the prompts.
"""

import re
from collections.abc import Iterable
from datetime import date, datetime, time
from typing import Annotated, Final

from mcp_types import ContentBlock, EmbeddedResource, TextContent, TextResourceContents
from pydantic import Field

from tidings._kit.text import quoted
from tidings.server.exact_calls import ExactServer
from tidings.vault.files.paths import uri
from tidings.vault.index.queries import FileRow
from tidings.vault.library import VaultLibrary
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.render import MARKDOWN, iso
from tidings.vault.view import VaultView, local_today

_NOTE_ROOM: Final = 8000  # The number of characters of a note that a prompt includes.
_RECENT: Final = 12
_MOST: Final = 50
_ROOM: Final = 40_000  # The number of characters of all notes together that a prompt includes.
_DAY: Final = "A date such as 2026-01-31, or 'today'."


def register(server: ExactServer, library: VaultLibrary) -> None:
    """Adds the prompts to a server."""

    async def daily_note(date: Annotated[str, Field(description=_DAY)] = "today") -> list[ContentBlock]:
        """Plan a day in its daily note, from what the last one left open and the notes that changed last."""
        return await library.ask(lambda view: daily_brief(view, date))

    async def summarise_recent(
        count: Annotated[str, Field(description="How many notes at most, up to 50; 10 if left out.")] = "",
        since: Annotated[str, Field(description=f"Only what changed on this day or later. {_DAY}")] = "",
    ) -> list[ContentBlock]:
        """Summarise the notes that changed last, or since a day."""
        return await library.ask(lambda view: recent_brief(view, count, since))

    server.add_documented_prompt(daily_note, "Plan the day", (LookupError, ValueError))
    server.add_documented_prompt(summarise_recent, "Summarise recent notes", (LookupError, ValueError))


def _told(view: VaultView, *paragraphs: str) -> ContentBlock:
    """Returns a text, with a warning if the index is incomplete."""
    return TextContent(type="text", text="\n\n".join(filter(None, [*paragraphs, view.status.standing])))


def _brought(view: VaultView, file: FileRow, room: int = _NOTE_ROOM) -> ContentBlock:
    text = view.queries.text(file.path) or ""
    if len(text) > room:
        text = f"{text[:room]}\n\n[{len(text) - room:,} more characters: read the resource.]"
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri("note", file.path), mime_type=MARKDOWN, text=text)
    )


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _day_of(text: str, today: date) -> date:
    """Parses a date argument. Raises `BadAddress` if it is not a date."""
    day = parse_address(uri("daily", text.strip() or "today")).argument
    return today if day == "today" else date.fromisoformat(day)


def daily_brief(view: VaultView, date: str, *, today: date | None = None) -> list[ContentBlock]:
    """Returns the messages for planning a day. Raises `BadAddress` if `date` is not a date."""
    day = _day_of(date, today or local_today())
    before = next((each for each in view.daily_dates(day) if each < day), None)
    note, last = view.periodic_note(day), view.periodic_note(before) if before else None
    brought = [each for each in (note, last) if each]
    shown = {each.path for each in brought}
    recent = [each.path for each in view.queries.recent(_RECENT) if each.kind == "note" and each.path not in shown]
    return [
        _told(
            view,
            f"Help me plan {day:%A}, {day.isoformat()}, in my daily note.",
            f"It is {note.path!r}."
            if note
            else f"It does not exist yet; it would be {' or '.join(map(repr, view.periodic_places(day)))}.",
            f"The last daily note is {last.path!r}." if last else "There is no earlier daily note.",
            f"These changed last:\n{_bullets(recent)}" if recent else "",
            "First show me a short plan: what is left open and still matters, what the notes that changed last call "
            "for, and what could wait. When I agree, write it into the daily note with the tools; make the note with "
            "`daily_note` if it does not exist, keep everything that is in it, and link the notes you refer to.",
        ),
        *(_brought(view, each) for each in brought),
    ]


def recent_brief(view: VaultView, count: str, since: str, *, today: date | None = None) -> list[ContentBlock]:
    """Returns the messages for a summary. Raises `ValueError` if `count` is not a number, or `since` not a date."""
    wanted = count.strip() or ("50" if since.strip() else "10")
    if not re.fullmatch(r"[0-9]{1,2}", wanted) or not 1 <= int(wanted) <= _MOST:
        raise ValueError(f"count cannot be {quoted(count)}. Give a whole number from 1 to {_MOST}.")
    start = _day_of(since, today or local_today()) if since.strip() else None
    oldest = datetime.combine(start, time.min).astimezone().timestamp() * 1e9 if start else 0
    # Canvases and bases are among them, so there may have to be more than are wanted.
    recent = view.queries.recent(int(wanted) * 3)
    notes = [file for file in recent if file.kind == "note" and file.mtime >= oldest][: int(wanted)]
    when = f" since {start.isoformat()}" if start else ""
    if not notes:
        return [_told(view, f"No note changed{when}. Tell me so.")]
    return [
        _told(
            view,
            f"Summarise what is new in my vault: the notes that changed last{when}, the newest first.",
            _bullets(f"{note.path} ({iso(note.mtime)})" for note in notes),
            "Group them by what they are about, say in one or two sentences what each adds, and name open questions "
            "and tasks. Refer to notes as [[links]]. The texts come along below; of those that are cut, read what you "
            "need.",
        ),
        *(_brought(view, note, _ROOM // len(notes)) for note in notes),
    ]

"""The prompt that sums up what changed last."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Final

from mcp_types import ContentBlock

from tidings.vault.files.path_rules import shorten
from tidings.vault.index.query_rows import FileRow
from tidings.vault.prompts.briefs import brought, bullets, day_of, pointed, told
from tidings.vault.resources.dailies import local_today
from tidings.vault.resources.shapes import iso
from tidings.vault.view import View

_MOST: Final = 50
_ROOM: Final = 40_000
"""How many characters of all notes together are brought along."""

_LEAST_ROOM: Final = 1000
"""A note of which less would be brought along is only pointed at."""


def brief(view: View, count: str, since: str, *, today: date | None = None) -> list[ContentBlock]:
    """What to say and bring for a summary.

    Raises:
        ValueError: `count` is no number, or `since` no date.
    """
    wanted = count.strip() or ("50" if since.strip() else "10")
    if not re.fullmatch(r"[0-9]{1,2}", wanted) or not 1 <= int(wanted) <= _MOST:
        raise ValueError(f"count cannot be {shorten(count)}. Give a whole number from 1 to {_MOST}.")
    start = day_of(since, today or local_today()) if since.strip() else None
    notes = list(_notes(view, int(wanted), start))
    when = f" since {start.isoformat()}" if start else ""
    if not notes:
        return [told(view, f"No note changed{when}. Tell me so.")]
    return [
        told(
            view,
            f"Summarise what is new in my vault: the notes that changed last{when}, the newest first.",
            bullets(f"{note.path} ({iso(note.mtime)})" for note in notes),
            "Group them by what they are about, say in one or two sentences what each adds, and name open questions "
            "and tasks. Refer to notes as [[links]]. The texts come along below; of those that are only linked, read "
            "what you need.",
        ),
        *_texts(view, notes),
    ]


def _notes(view: View, count: int, start: date | None) -> Iterator[FileRow]:
    oldest = datetime.combine(start, time.min).astimezone().timestamp() * 1e9 if start else 0
    # Canvases and bases are among them, so there may have to be more than are wanted.
    notes = [file for file in view.queries.recent(count * 3) if file.kind == "note" and file.mtime >= oldest]
    yield from notes[:count]


def _texts(view: View, notes: list[FileRow]) -> Iterator[ContentBlock]:
    room, each = _ROOM, max(_ROOM // len(notes), _LEAST_ROOM)
    for note in notes:
        share = min(each, room)
        yield brought(view, note, share) if share >= _LEAST_ROOM else pointed(note)
        room -= min(share, note.size)

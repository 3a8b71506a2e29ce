"""The prompt that plans a day: what the last daily note left open, and what changed since."""

from datetime import date, timedelta
from typing import Final

from mcp_types import ContentBlock

from tidings.vault.index.query_rows import FileRow
from tidings.vault.prompts.briefs import brought, bullets, day_of, pointed, told
from tidings.vault.resources.dailies import daily_dates, daily_places, local_today
from tidings.vault.resources.shapes import one_line
from tidings.vault.view import View

_TASKS: Final = 50
_RECENT: Final = 10


def brief(view: View, date: str, *, today: date | None = None) -> list[ContentBlock]:
    """What to say and bring for the plan of a day.

    Raises:
        BadAddress: `date` is none.
    """
    day = day_of(date, today or local_today())
    note, last = _note(view, day), _last(view, day)
    recent = [
        file
        for file in view.queries.recent(_RECENT + 2)
        if file.kind == "note" and file.path not in {each.path for each in (note, last) if each}
    ]
    return [
        told(
            view,
            f"Help me plan {day:%A}, {day.isoformat()}, in my daily note.",
            _where(view, day, note),
            _open(view, last) if last else "There is no earlier daily note.",
            "First show me a short plan: what is left open and still matters, what the notes that changed last call "
            "for, and what could wait. When I agree, write it into the daily note with the tools; make the note with "
            "`daily_note` if it does not exist, keep everything that is in it, and link the notes you refer to.",
        ),
        *(brought(view, each) for each in (note, last) if each),
        *map(pointed, recent[:_RECENT]),
    ]


def _where(view: View, day: date, note: FileRow | None) -> str:
    if note:
        return f"It is {note.path!r} and comes along below."
    return f"It does not exist yet; it would be {' or '.join(map(repr, daily_places(view, day)))}."


def _open(view: View, last: FileRow) -> str:
    tasks = view.queries.tasks(path=last.path, done=False)
    if not tasks:
        return f"The last daily note, {last.path!r}, left nothing open."
    shown = bullets(f"{one_line(task.text)} (line {task.line})" for task in tasks[:_TASKS])
    more = f"\n- and {len(tasks) - _TASKS} more" if len(tasks) > _TASKS else ""
    return f"Open in the last daily note, {last.path!r}:\n{shown}{more}"


def _note(view: View, day: date) -> FileRow | None:
    return next(filter(None, map(view.queries.file, daily_places(view, day))), None)


def _last(view: View, day: date) -> FileRow | None:
    """The daily note before that of `day`; mostly yesterday's."""
    if yesterday := _note(view, day - timedelta(days=1)):
        return yesterday
    before = max((each for each in daily_dates(view) if each < day), default=None)
    return _note(view, before) if before else None

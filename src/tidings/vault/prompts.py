"""The prompts of a vault: planning a day, summarising recent changes, tidying tags.

Each includes what the index knows (open tasks, similar tags), so that the model judges and writes, and need not search.
The size is bounded. Clients see the docstrings of the methods.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import combinations
from typing import Annotated, Final

from mcp_types import ContentBlock, EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import Field

from tidings._kit.text import one_line, quoted
from tidings.server.exact_calls import ExactServer
from tidings.server.families import ResourceMissing
from tidings.vault.files.paths import uri
from tidings.vault.index.queries import FileRow, TagCount
from tidings.vault.library import VaultLibrary
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.render import MARKDOWN, iso
from tidings.vault.view import VaultView, daily_dates, local_today, periodic_note, periodic_places

Content = list[ContentBlock]

_NOTE_ROOM: Final = 8000  # The number of characters of a note that a prompt includes.
_TASKS: Final = 50
_RECENT: Final = 10
_MOST: Final = 50
_ROOM: Final = 40_000  # The number of characters of all notes together that a prompt includes.
_LEAST_ROOM: Final = 1000  # A note that would be cut to less is only linked.
_MOST_TAGS: Final = 5000  # Only the most used tags are compared.
_LONG_ENOUGH: Final = 5  # Shorter words that differ in a letter are mostly different words.
_GROUPS: Final = 60
_SINGLES: Final = 60
_DAY: Final = "A date such as 2026-01-31, or 'today'."


def register(server: ExactServer, library: VaultLibrary) -> None:
    """Adds the prompts to a server."""
    prompts = Prompts(library)
    for title, function in (
        ("Plan the day", prompts.daily_note),
        ("Tidy tags", prompts.tidy_tags),
        ("Summarise recent notes", prompts.summarise_recent),
    ):
        server.add_documented_prompt(function, title, (LookupError, ValueError))


@dataclass(frozen=True)
class Prompts:
    """The prompts as methods."""

    library: VaultLibrary

    async def daily_note(self, date: Annotated[str, Field(description=_DAY)] = "today") -> Content:
        """Plan a day in its daily note, from what the last one left open and the notes that changed last."""
        return await self.library.ask(lambda view: daily_brief(view, date))

    async def tidy_tags(
        self, tag: Annotated[str, Field(description="Only this tag and those nested in it; all if left out.")] = ""
    ) -> Content:
        """Find tags that mean the same (misspelt, singular and plural, written differently), and merge them."""
        return await self.library.ask(lambda view: tags_brief(view, tag))

    async def summarise_recent(
        self,
        count: Annotated[str, Field(description="How many notes at most, up to 50; 10 if left out.")] = "",
        since: Annotated[str, Field(description=f"Only what changed on this day or later. {_DAY}")] = "",
    ) -> Content:
        """Summarise the notes that changed last, or since a day."""
        return await self.library.ask(lambda view: recent_brief(view, count, since))


def _told(view: VaultView, *paragraphs: str) -> ContentBlock:
    """Returns a text, with a warning if the index is incomplete."""
    return TextContent(type="text", text="\n\n".join(filter(None, [*paragraphs, view.status.standing])))


def _brought(view: VaultView, file: FileRow, room: int = _NOTE_ROOM) -> ContentBlock:
    """Returns a note's text, as much as fits."""
    text = view.queries.text(file.path) or ""
    if len(text) > room:
        text = f"{text[:room]}\n\n[{len(text) - room:,} more characters: read the resource.]"
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri("note", file.path), mime_type=MARKDOWN, text=text)
    )


def _pointed(file: FileRow) -> ContentBlock:
    return ResourceLink(
        type="resource_link",
        name=file.path,
        uri=uri("note", file.path),
        title=file.title,
        mime_type=MARKDOWN,
        size=file.size,
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
    note, last = periodic_note(view, day), periodic_note(view, day - timedelta(days=1))
    if last is None and (before := max((each for each in daily_dates(view) if each < day), default=None)):
        last = periodic_note(view, before)
    recent = [
        file
        for file in view.queries.recent(_RECENT + 2)
        if file.kind == "note" and file.path not in {each.path for each in (note, last) if each}
    ]
    return [
        _told(
            view,
            f"Help me plan {day:%A}, {day.isoformat()}, in my daily note.",
            f"It is {note.path!r} and comes along below."
            if note
            else f"It does not exist yet; it would be {' or '.join(map(repr, periodic_places(view, day)))}.",
            _open(view, last) if last else "There is no earlier daily note.",
            "First show me a short plan: what is left open and still matters, what the notes that changed last call "
            "for, and what could wait. When I agree, write it into the daily note with the tools; make the note with "
            "`daily_note` if it does not exist, keep everything that is in it, and link the notes you refer to.",
        ),
        *(_brought(view, each) for each in (note, last) if each),
        *map(_pointed, recent[:_RECENT]),
    ]


def _open(view: VaultView, last: FileRow) -> str:
    tasks = view.queries.tasks(last.path, done=False)
    if not tasks:
        return f"The last daily note, {last.path!r}, left nothing open."
    shown = _bullets(f"{one_line(task.text, 200)} (line {task.line})" for task in tasks[:_TASKS])
    more = f"\n- and {len(tasks) - _TASKS} more" if len(tasks) > _TASKS else ""
    return f"Open in the last daily note, {last.path!r}:\n{shown}{more}"


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
    texts: list[ContentBlock] = []
    room, each = _ROOM, max(_ROOM // len(notes), _LEAST_ROOM)
    for note in notes:
        share = min(each, room)
        texts.append(_brought(view, note, share) if share >= _LEAST_ROOM else _pointed(note))
        room -= min(share, note.size)
    return [
        _told(
            view,
            f"Summarise what is new in my vault: the notes that changed last{when}, the newest first.",
            _bullets(f"{note.path} ({iso(note.mtime)})" for note in notes),
            "Group them by what they are about, say in one or two sentences what each adds, and name open questions "
            "and tasks. Refer to notes as [[links]]. The texts come along below; of those that are only linked, read "
            "what you need.",
        ),
        *texts,
    ]


def tags_brief(view: VaultView, tag: str) -> list[ContentBlock]:
    """Returns the messages about all tags, or about those below one. Raises `ResourceMissing` for an unknown tag."""
    top = view.queries.tag(tag) if tag.strip(" #/") else None
    if tag.strip(" #/") and top is None:
        raise ResourceMissing(f"No note has the tag {tag!r}. Leave it out to look at all tags.")
    every = [
        each for each in view.queries.tags() if each.notes and (top is None or f"{each.key}/".startswith(f"{top.key}/"))
    ]
    about = f"the tags in #{top.shown}" if top else "the tags of my vault"
    return [
        _told(
            view,
            f"Help me tidy {about}: {len(every)} in use.",
            _alike(every),
            _spellings(view, {each.key for each in every}),
            _singles(every),
            "Judge which of these really mean the same, and propose which to keep: mostly the one that more notes "
            "have. Show me the whole plan as a table (from, to, how many notes, why) and wait for my yes. Then rename "
            "one by one with the tool `rename_tag`, and tell me which notes it changed.",
        )
    ]


def _alike(tags: Sequence[TagCount]) -> str:
    known = {tag.key: tag for tag in tags}
    lines = [
        f"{', '.join(f'#{known[each].shown} ({known[each].notes})' for each in group)}: {why}"
        for why, group in alike({tag.key: tag.notes for tag in tags})
    ]
    return _section("These look alike (with the number of notes):", lines) or "No two of them look alike."


def _spellings(view: VaultView, tags: set[str]) -> str:
    rows = view.queries.connection.execute(
        "SELECT key, shown, count(DISTINCT file) AS notes FROM tags GROUP BY key, shown ORDER BY key, notes DESC, shown"
    )
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for tag, shown, notes in rows:
        if tag in tags:
            spellings[tag].append(f"#{shown} ({notes})")
    lines = [", ".join(forms) for forms in spellings.values() if len(forms) > 1]
    return _section("These are one tag each to Obsidian, but written in several ways:", lines)


def _singles(tags: Sequence[TagCount]) -> str:
    names = [f"#{tag.shown}" for tag in tags if tag.notes == 1]
    if not names:
        return ""
    more = f" and {len(names) - _SINGLES} more" if len(names) > _SINGLES else ""
    return f"Only one note has each of these: {', '.join(names[:_SINGLES])}{more}."


def _section(heading: str, lines: list[str]) -> str:
    more = [f"and {len(lines) - _GROUPS} more"] if len(lines) > _GROUPS else []
    return f"{heading}\n{_bullets([*lines[:_GROUPS], *more])}" if lines else ""


def alike(counts: Mapping[str, int]) -> list[tuple[str, list[str]]]:
    """Returns groups of tags (in lower case, without `#`) that may mean the same, and why; the most used first."""
    tags = sorted(counts, key=lambda tag: (-counts[tag], tag))[:_MOST_TAGS]
    found: list[tuple[str, list[str]]] = []
    told: set[frozenset[str]] = set()
    for why, groups in (
        ("written differently", _same(tags, _plain)),
        ("singular and plural", _same(tags, _singular)),
        ("one letter apart, perhaps misspelt", _near(tags)),
        ("same name, nested in different tags", _same(tags, lambda tag: _plain(tag.rpartition("/")[2]))),
    ):
        for group in groups:
            pairs = {frozenset(pair) for pair in combinations(group, 2)}
            if not pairs <= told:
                told |= pairs
                found.append((why, group))
    return sorted(found, key=lambda each: -sum(counts[tag] for tag in each[1]))


def _same(tags: Iterable[str], form: Callable[[str], str]) -> list[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for tag in tags:
        groups[form(tag)].append(tag)
    return [group for group in groups.values() if len(group) > 1]


def _plain(tag: str) -> str:
    letters = unicodedata.normalize("NFKD", tag)
    return "".join(each for each in letters if each not in "-_" and not unicodedata.combining(each))


def _singular(tag: str) -> str:
    plain = _plain(tag)
    for ending, single in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if plain.endswith(ending) and len(plain) > len(ending) + 1:
            return plain.removesuffix(ending) + single
    return plain if plain.endswith("ss") or len(plain) < 4 else plain.removesuffix("s")


def _near(tags: Iterable[str]) -> list[list[str]]:
    """Returns pairs that are one letter apart: both have a form in common once each has lost at most one letter."""
    buckets: defaultdict[str, list[str]] = defaultdict(list)
    for tag in tags:
        if len(tag) >= _LONG_ENOUGH:
            for shorter in {tag, *(tag[:at] + tag[at + 1 :] for at in range(len(tag)))}:
                buckets[shorter].append(tag)
    pairs = {pair for bucket in buckets.values() for pair in combinations(bucket, 2) if _one_apart(*pair)}
    return sorted(map(list, pairs))


def _one_apart(one: str, other: str) -> bool:
    """Returns whether two words differ by one letter, or by two exchanged ones. Numbers are not misspellings."""
    if re.findall(r"\d+", one) != re.findall(r"\d+", other) or one.count("/") != other.count("/"):
        return False
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    return (
        one[1:] == other[1:]
        or one[1:] == other
        or one == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )

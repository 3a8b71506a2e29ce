"""The prompts of a vault: planning a day, summarising recent changes, tidying tags, suggesting links.

Each includes what the index knows (open tasks, similar tags, notes that may belong together), so that the model judges
and writes, and need not search. The size is bounded. Clients see the docstrings of the methods.
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import combinations, islice
from typing import Annotated, Final

from mcp_types import ContentBlock, EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from pydantic import Field

from tidings._kit.suggest import question
from tidings._kit.text import one_line, quoted
from tidings.server.exact_calls import ExactServer
from tidings.server.families import ResourceMissing
from tidings.vault.files.paths import uri
from tidings.vault.index import graph
from tidings.vault.index.queries import FileRow, TagCount
from tidings.vault.library import VaultLibrary
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import section
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.render import MARKDOWN, find_file, iso
from tidings.vault.search.search import SearchPage, search
from tidings.vault.search.tree import Or, Phrase, Query, Regex, Within
from tidings.vault.view import VaultView, daily_dates, hidden_from_search, local_today, periodic_note, periodic_places

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
_SUGGESTED: Final = 15  # The number of notes that are suggested for one reason.
_LOOKED_AT: Final = 100_000  # The number of characters of a note that are searched.
_LONGEST_NAME: Final = 6  # The number of words of the text that may form one name.
_CANDIDATES: Final = 40  # The number of words of the text whose rarity is looked up.
_RARE: Final = 8  # The number of them that are searched for.
_DAY: Final = "A date such as 2026-01-31, or 'today'."
_Suggestion = tuple[str, str]  # The path of a note, and the reason for its suggestion.


def register(server: ExactServer, library: VaultLibrary) -> None:
    """Adds the prompts to a server."""
    prompts = Prompts(library)
    for title, function in (
        ("Plan the day", prompts.daily_note),
        ("Tidy tags", prompts.tidy_tags),
        ("Summarise recent notes", prompts.summarise_recent),
        ("Suggest links", prompts.suggest_links),
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

    async def suggest_links(
        self,
        path: Annotated[str, Field(description="The note: its path, or its bare name.")],
        heading: Annotated[str, Field(description="Only the section with this heading; all if left out.")] = "",
    ) -> Content:
        """Suggest links between a note and others: names that it mentions, notes that mention it, and notes with the
        same tags or words.
        """
        return await self.library.ask(lambda view: links_brief(view, path, heading))


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


def links_brief(view: VaultView, path: str, heading: str) -> list[ContentBlock]:
    """Returns the messages about notes to link with one. Raises `ResourceMissing`; `EditRefused` for a bad heading."""
    try:
        file = find_file(view, path)
    except ResourceMissing as missing:
        raise ResourceMissing(f"{missing}{question(view.queries.near(path))}") from None
    if file.kind != "note":
        raise ResourceMissing(f"{file.path!r} is no note.")
    whole = view.queries.text(file.path) or ""
    part = section(whole, heading) if heading.strip() else None
    text = (part.text if part else whole)[:_LOOKED_AT]
    where = f"the section {heading!r} of {file.path!r} (from line {part.start_line})" if part else repr(file.path)
    out = (link.leads_to for link in graph.outgoing(view.queries, file.path) if link.leads_to)
    known = {file.path, *out, *(link.source for link in graph.backlinks(view.queries, file.path))}
    lists = [
        _list("It mentions these names without a link:", _mentioned(view, text, part.start_line if part else 1), known),
        _list("These notes mention it without a link:", _mentioning(view, file), known),
        _list("These have the same tags, rare ones first:", _tagged(view, file), known),
        _list("These have words in common that few notes have:", _similar(view, text), known),
    ]
    return [
        _told(
            view,
            f"Suggest links between {where} and other notes of my vault.",
            *lists,
            "" if any(lists) else "Nothing was found that is not linked already. Tell me so, or look further.",
            "Read what you need to judge these. Show me which links you would add, in which sentence and why: better a "
            "few that help than many. When I agree, add them with the tool `edit`, as [[links]], and change nothing "
            "else.",
        ),
        _brought(view, file),
    ]


def _list(heading: str, suggestions: Iterable[_Suggestion], known: set[str]) -> str:
    """Lists the suggestions that are not `known`, and adds them to `known`."""
    lines: list[str] = []
    for path, why in suggestions:
        if path not in known and len(lines) < _SUGGESTED:
            known.add(path)
            lines.append(f"{path}: {why}")
    return f"{heading}\n{_bullets(lines)}" if lines else ""


def _mentioned(view: VaultView, text: str, first_line: int) -> Iterator[_Suggestion]:
    """Yields the notes whose name or alias occurs in the text."""
    places = _names(text)
    rows = view.queries.connection.execute(
        """WITH said AS (SELECT value FROM json_each(?))
           SELECT value, path FROM said CROSS JOIN files ON files.name = value WHERE kind = 'note'
           UNION
           SELECT value, path FROM said CROSS JOIN aliases ON aliases.key = value JOIN files ON files.id = file""",
        (json.dumps([*places]),),
    ).fetchall()
    for name, path in sorted(rows, key=lambda row: (places[row[0]], row[1])):
        start, shown = places[name]
        yield path, f"{shown!r} in line {first_line + text.count(chr(10), 0, start)}"


def _names(text: str) -> dict[str, tuple[int, str]]:
    """Returns every possible name in the text by its key, with its first line and its spelling."""
    words = list(re.finditer(r"[^\W_]+", text))
    names: dict[str, tuple[int, str]] = {}
    for at, word in enumerate(words):
        for last in words[at : at + _LONGEST_NAME]:
            name = text[word.start() : last.end()]
            if "\n" in name:
                break
            if len(name) > 2 and not name.isdigit():
                names.setdefault(key(name), (word.start(), name))
    return names


def _mentioning(view: VaultView, file: FileRow) -> Iterator[_Suggestion]:
    for name in islice(dict.fromkeys([file.title, *view.queries.aliases(file.path)]), 5):
        if len(name) > 2:
            whole = Regex(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])")
            for hit in _search(view, Within("content", whole)).hits:
                lines = [f"line {match.line}: {one_line(match.text, 200)}" for match in hit.matches]
                yield hit.path, "; ".join(lines) or name


def _tagged(view: VaultView, file: FileRow) -> Iterator[_Suggestion]:
    rows = view.queries.connection.execute(
        """SELECT path, group_concat('#' || shown, ' ') FROM (
               SELECT DISTINCT other.file AS file, counted.shown AS shown, counted.notes AS notes
               FROM tags AS own
               JOIN tag_counts AS counted ON counted.key = own.key
               JOIN tags AS other ON other.key = own.key AND other.file <> own.file
               WHERE own.file = ? ORDER BY counted.notes, counted.key
           ) JOIN files ON files.id = file GROUP BY file ORDER BY sum(1.0 / notes) DESC, path LIMIT 100""",
        (file.id,),
    )
    yield from rows


def _similar(view: VaultView, text: str) -> Iterator[_Suggestion]:
    ask = view.queries.connection.execute
    words = dict.fromkeys(each for each in re.findall(r"[^\W\d_]{5,40}", text.lower()))
    # Long words are rare, mostly.
    candidates = sorted(words, key=len, reverse=True)[:_CANDIDATES]
    counts = {
        each: ask("SELECT count(*) FROM fts WHERE fts MATCH ?", (f'"{each}"',)).fetchone()[0] for each in candidates
    }
    notes = ask("SELECT count(*) FROM files").fetchone()[0]
    few = [each for each in candidates if 2 <= counts[each] <= max(2, notes / 5)]
    if rare := sorted(few, key=counts.__getitem__)[:_RARE]:
        found = _search(view, Or(tuple(map(Phrase, rare))) if len(rare) > 1 else Phrase(rare[0]))
        for hit in found.hits:
            own = key(view.queries.text(hit.path) or "")
            yield hit.path, ", ".join(each for each in rare if key(each) in own) or ", ".join(rare[:1])


def _search(view: VaultView, query: Query) -> SearchPage:
    return search(view.queries, query, limit=2 * _SUGGESTED, matches=1, hidden=hidden_from_search(view.vault))

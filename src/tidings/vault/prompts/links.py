"""The prompt that suggests links: notes that may belong to a note, and why."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from mcp_types import ContentBlock

from tidings._kit.suggest import question
from tidings._kit.text import one_line
from tidings.server.families import ResourceMissing
from tidings.vault.index import graph
from tidings.vault.index.queries import FileRow
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import section
from tidings.vault.prompts.briefs import brought, bullets, told
from tidings.vault.resources.render import find_file
from tidings.vault.search.search import SearchPage, search
from tidings.vault.search.tree import Or, Phrase, Query, Within
from tidings.vault.view import VaultView, hidden_from_search

_MOST: Final = 15  # The number of notes that are suggested for one reason.
_LOOKED_AT: Final = 100_000  # The number of characters of a note that are searched.
_LONGEST_NAME: Final = 6  # The number of words of the text that may form one name.
_CANDIDATES: Final = 40  # The number of words of the text whose rarity is looked up.
_RARE: Final = 8  # The number of them that are searched for.
_Suggestion = tuple[str, str]  # The path of a note, and the reason for its suggestion.


def brief(view: VaultView, path: str, heading: str) -> list[ContentBlock]:
    """Returns the messages about notes that may be linked with one.

    Raises `ResourceMissing` for an unknown note, and `EditRefused` for an unknown or ambiguous heading.
    """
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
        told(
            view,
            f"Suggest links between {where} and other notes of my vault.",
            *lists,
            "" if any(lists) else "Nothing was found that is not linked already. Tell me so, or look further.",
            "Read what you need to judge these. Show me which links you would add, in which sentence and why: better a "
            "few that help than many. When I agree, add them with the tool `edit`, as [[links]], and change nothing "
            "else.",
        ),
        brought(view, file),
    ]


def _list(heading: str, suggestions: Iterable[_Suggestion], known: set[str]) -> str:
    """Lists the suggestions that are not `known`, and adds them to `known`."""
    lines: list[str] = []
    for path, why in suggestions:
        if path not in known and len(lines) < _MOST:
            known.add(path)
            lines.append(f"{path}: {why}")
    return f"{heading}\n{bullets(lines)}" if lines else ""


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
    """Yields the notes whose text contains the name or alias of this one."""
    for name in islice(dict.fromkeys([file.title, *view.queries.aliases(file.path)]), 5):
        if len(name) > 2:
            for hit in _search(view, Within("content", Phrase(name))).hits:
                lines = [f"line {match.line}: {one_line(match.text, 200)}" for match in hit.matches]
                yield hit.path, "; ".join(lines) or name


def _tagged(view: VaultView, file: FileRow) -> Iterator[_Suggestion]:
    """Yields the notes with the same tags. A tag counts more if fewer notes have it."""
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
    """Yields the notes that contain the rarest words of the text."""
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
    return search(view.queries.connection, query, limit=2 * _MOST, matches=1, hidden=hidden_from_search(view.vault))

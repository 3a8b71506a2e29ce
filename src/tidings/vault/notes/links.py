"""Resolving, writing and rewriting links.

All paths are relative to the vault that contains both ends of the link. The rules are Obsidian's: a path from the
vault's root wins; a name, or the end of a path, leads to the only file that it fits, else to one in the folder of the
note or below it, else to the one with the shortest path. Case is ignored, unless two files differ in nothing else.
`.md` may be left out; other files are written with their extension.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

from tidings._kit.text import applied
from tidings.vault.notes.markdown import DESTINATION, REFERENCE
from tidings.vault.notes.model import NoteLink, TextChange, key

Candidates = Callable[[str], Sequence[str]]
"""Returns the paths of the files with a name, which is a `key`; for notes without `.md`. A `SameName` is fastest."""
Style = Literal["shortest", "relative", "absolute"]
"""The app's setting: the name alone if it is unique, a path from the note's folder, or one from the root."""

_MANY = 20  # Files of one name.
_PATH = re.compile(r"[|#]")
MARKDOWN = {"markdown": re.compile(DESTINATION), "reference": re.compile(REFERENCE, re.MULTILINE)}
"""The kinds of links with a Markdown destination, and the end of such a link."""
_BARE = 2  # The group of a destination without angle brackets.
_UNWRITABLE = re.compile(r"[\n\r|#]|\[\[|\]\]|^\[|\]$|\\$")
_ENCODED = re.compile(r"[\0- %<>\\#:\x7f\s]")
_ENCODED_BRACKETS = re.compile(r"[\0- %()<>\\#:\x7f\s]")
_BALANCED = re.compile(r"[^()]*+(?:\([^()]*+\)[^()]*+)*+")
_ENCODED_ANGLED = re.compile(r"[\0-\x1f%<>#:\x7f]|^\s|\s$")


class SameName(list[str]):
    """The paths of the files with one name, which may be thousands: `index.md`, for example."""

    @cached_property
    def by_end(self) -> dict[str, list[str]]:
        """The paths by the ends of their keys: by `c.md`, `b/c.md` and `a/b/c.md`."""
        ends: dict[str, list[str]] = {}
        for path in self:
            end = key(path)
            while end:
                ends.setdefault(end, []).append(path)
                end = end.partition("/")[2]
        return ends


def resolve(target: str, source: str, candidates: Candidates) -> str | None:
    """Returns the path that a link in `source` leads to, or None if there is no such file."""
    if not target:
        return source
    folder = posixpath.dirname(source)
    if target.startswith(("./", "../")):
        wanted = posixpath.normpath(posixpath.join(folder, target))
        return None if wanted.startswith("../") else _best(wanted, _fitting(wanted, candidates, whole=True), folder)
    if target.startswith("/"):
        return _best(target[1:], _fitting(target[1:], candidates, whole=True), folder)
    return _best(target, _fitting(target, candidates, whole=False), folder)


def _fitting(wanted: str, candidates: Candidates, *, whole: bool) -> list[str]:
    """Returns the files whose path is `wanted`, with or without `.md`, or (unless `whole`) ends with it."""
    wanted = key(wanted)
    name = wanted.rpartition("/")[2]
    found: list[str] = []
    for paths in map(candidates, (name, name[:-3]) if name.endswith(".md") else (name,)):
        same = paths if isinstance(paths, SameName) else SameName(paths)
        found += [path for end in (wanted, f"{wanted}.md") for path in same.by_end.get(end, ())]
    return [path for path in found if key(path) in (wanted, f"{wanted}.md")] if whole else found


def _best(wanted: str, paths: list[str], folder: str) -> str | None:
    """Chooses by these criteria: no `.md` added, the whole path, the exact case, near the note, short."""
    if len(paths) < 2:
        return paths[0] if paths else None
    near = folder + "/" if folder else ""
    if len(paths) > _MANY:  # No other one can be the best.
        shortest, depth = min(map(len, paths)), wanted.count("/")
        paths = [path for path in paths if len(path) == shortest or path.count("/") == depth or path.startswith(near)]
    folded = key(wanted)

    def rank(path: str) -> tuple[object, ...]:
        folded_path = key(path)
        added = folded_path != folded and not folded_path.endswith("/" + folded)
        whole = folded_path == (folded + ".md" if added else folded)
        alike = path.endswith((wanted, wanted + ".md"))
        return added, not whole, not (whole and alike), not path.startswith(near), len(path), not alike, path

    return min(paths, key=rank)


def shortest(path: str, source: str, candidates: Candidates, style: Style = "shortest") -> str:
    """Returns the shortest target of a link in `source` that leads to `path` and to no other file."""
    bare = without_md(path)
    name = posixpath.basename(bare)
    spellings = [bare, path, "/" + bare]
    if style == "relative":
        relative = posixpath.relpath(bare, posixpath.dirname(source) or ".")
        spellings = [relative, relative if relative.startswith("../") else "./" + relative, *spellings]
    elif style == "shortest" and len(_fitting(name, candidates, whole=False)) == 1:
        spellings = [name, *spellings]
    # Spaces at the ends of a link are not part of it.
    fits = (each for each in spellings if each == each.strip() and resolve(each, source, candidates) == path)
    return next(fits, "/" + path)


def rewritten(link: NoteLink, path: str, source: str, candidates: Candidates, style: Style = "shortest") -> str:
    """Returns the target of `link` that leads to `path`: with `.md` if it had that, or is a Markdown link."""
    target = shortest(path, source, candidates, style)
    wanted = link.kind in MARKDOWN or link.target.lower().endswith(".md")
    if wanted and path.lower().endswith(".md") and not f"/{path}".endswith("/" + posixpath.basename(target)):
        full = target + path[-3:]
        return full if resolve(full, source, candidates) == path else target
    return target


def link_name(target: str) -> str:
    """Returns the name in a link's target, or of a file, by which they find each other: a `key` without `.md`."""
    return key(target.rpartition("/")[2]).removesuffix(".md")


def without_md(path: str) -> str:
    """Returns a note's path without `.md`; that of another file unchanged."""
    return path[:-3] if path[-3:].lower() == ".md" and path[-4:-3] not in ("", "/") else path


def rewrite(text: str, links: Sequence[NoteLink], new_target: Callable[[NoteLink], str | None]) -> str:
    """Returns the text with other targets in its `links`. A link stays if the new one is None or cannot be written."""
    changes: list[TextChange] = []
    for link in links:
        target = new_target(link)
        if target is not None and target != link.target:
            place = _markdown_place(text, link) if link.kind in MARKDOWN else _wiki_place(text, link)
            if place is not None and (written := _written(text, link, target, place[0])) is not None:
                changes.append(TextChange(*place, written))
    return applied(text, sorted(changes))


def _wiki_place(text: str, link: NoteLink) -> tuple[int, int]:
    start = link.start + (3 if link.embed else 2)
    path = _PATH.split(text[start : link.end - 2], maxsplit=1)[0]
    path = path.removesuffix("\\") if text.startswith("|", start + len(path)) else path
    start += len(path) - len(path.lstrip())
    return start, start + len(path.strip())


def _markdown_place(text: str, link: NoteLink) -> tuple[int, int] | None:
    """Returns the position of the target of a Markdown link; None if it cannot be replaced alone."""
    found = MARKDOWN[link.kind].match(text, link.start + (2 if link.embed else 1) + len(link.shown or ""))
    if found is None:  # The text is not the one that the link was found in.
        raise ValueError(f"there is no link at {link.start}")
    start, end = found.span(found.lastindex or 0)
    mark = text.find("#", start, end)
    if mark < 0:
        return start, end
    if found.lastindex == _BARE and not _BALANCED.fullmatch(text, mark, end):
        return None  # A bracket of the path is closed in the subpath.
    return start, mark - text.startswith("\\", mark - 1)


def _written(text: str, link: NoteLink, target: str, start: int) -> str | None:
    """Returns the target as it is written at `start`; None if that is not possible."""
    if link.kind in MARKDOWN:
        return encode(target, angled=text[start - 1] == "<")
    if _UNWRITABLE.search(target):
        return None
    quote = text[link.start - 1] if link.kind == "property" else ""
    if quote == "'":
        return target.replace("'", "''")
    return target.replace("\\", "\\\\").replace('"', '\\"') if quote == '"' else target


def encode(target: str, *, angled: bool = False) -> str:
    """Percent-encodes a path for the destination of a Markdown link, where a character has a meaning there."""
    if angled:
        return _ENCODED_ANGLED.sub(_percent, target)
    return (_ENCODED if _BALANCED.fullmatch(target) else _ENCODED_BRACKETS).sub(_percent, target)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())

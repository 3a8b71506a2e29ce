"""Tools that show notes: their text, as much as fits, or facts about them.

A text is read from the disk and not from the index: it is what the agent will change, and it may be newer than the
index. An answer always says what was left out.
"""

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from mcp_types import CallToolResult, ImageContent

from tidings._kit.files import read_file
from tidings._kit.text import counted, listed
from tidings.server.families import ResourceMissing
from tidings.vault.files.content import Texts
from tidings.vault.files.disk import Disk
from tidings.vault.files.outcomes import FileTooLarge, NotText, NotThere
from tidings.vault.files.paths import BadPath, uri
from tidings.vault.index import graph
from tidings.vault.notes import sections
from tidings.vault.notes.canvas import canvas_outline
from tidings.vault.notes.model import version_of
from tidings.vault.notes.sections import EditRefused, line_starts
from tidings.vault.resources import base_views
from tidings.vault.resources.addresses import MOST_ITEMS
from tidings.vault.resources.render import iso, mime_type
from tidings.vault.tools import results
from tidings.vault.tools.lookup import meant
from tidings.vault.tools.results import ExcerptResult, Info, answer
from tidings.vault.view import VaultView, iso_date, local_today

CHARACTERS_PER_TOKEN: Final = 4  # A rule of thumb for prose; code and other scripts have fewer.
LARGEST_IMAGE: Final = 3_500_000  # Bytes: most models take no image of more than 5 MB in Base64.
_IMAGES: Final = {
    rb"\x89PNG\r\n\x1a\n": "image/png",
    rb"\xff\xd8\xff": "image/jpeg",
    rb"GIF8[79]a": "image/gif",
    rb"RIFF....WEBP": "image/webp",
}
_MOST: Final = 200  # The largest number of headings, blocks or properties that are listed.


class LineRange(NamedTuple):
    """A range of lines, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"


class Excerpt(NamedTuple):
    """A part of a text."""

    text: str
    lines: LineRange | None  # None for an empty text.
    total: int  # The number of lines of the whole text.
    left_out: str  # The part that did not fit, and how to get it; empty if everything did.


def parse_lines(text: str, total: int) -> LineRange:
    """Parses `12`, `12-20`, `12-` or `-20` for a text with `total` lines. Raises `EditRefused`."""
    found = re.fullmatch(r"\s*([0-9]{0,9})\s*(-?)\s*([0-9]{0,9})\s*", text)
    if found is None or not (found[1] or found[3]) or (found[1] and found[3] and not found[2]):
        raise EditRefused(f"{text!r} is not a range of lines. Write one such as '12', '12-20', '12-' or '-20'.")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else (total if found[2] else first)
    if first > total:
        raise EditRefused(f"There is no line {first}: the note has {total:,}.")
    if first < 1 or last < first:
        raise EditRefused(f"{text!r} is not a range of lines: they count from 1, and the smaller number comes first.")
    return LineRange(first, min(last, total))


def excerpt(text: str, chosen: str, room: int) -> Excerpt:
    """Returns as much of the `chosen` lines (empty: all) as fits into `room` characters. Raises `EditRefused`."""
    starts = line_starts(text)
    total = len(starts) - 1
    first, last = parse_lines(chosen, total) if chosen else LineRange(1, total)
    if not total:
        return Excerpt("", None, 0, "")
    begin, end = starts[first - 1], starts[last]
    if end - begin <= room:
        return Excerpt(text[begin:end], LineRange(first, last), total, "")
    fits = first - 1
    while starts[fits + 1] - begin <= room:
        fits += 1
    if fits < first:
        whole = starts[first] - begin
        shown = f"the first {room:,} are shown. Ask with max_tokens={_tokens(whole)}."
        left = f"Line {first} has {whole:,} characters: {shown}"
        return Excerpt(text[begin : begin + room], LineRange(first, first), total, left)
    rest = f"{fits + 1}-" if last == total else str(LineRange(fits + 1, last))
    about = f"about {_tokens(end - starts[fits]):,} tokens. Ask with lines='{rest}'."
    left = f"Lines {LineRange(fits + 1, last)} are left out, {about}"
    return Excerpt(text[begin : starts[fits]], LineRange(first, fits), total, left)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


class ChosenNotes(NamedTuple):
    """The requested part of a note: at most one of these; the whole note if they are empty."""

    section: str = ""
    block: str = ""
    lines: str = ""

    def of(self, text: str) -> str:
        """Returns the lines of that part for `excerpt`. Raises `EditRefused` if there is none, or several."""
        if sum(map(bool, self)) > 1:
            raise EditRefused("Give only one of section, block and lines.")
        if self.section:
            part = sections.section(text, self.section)
        elif self.block:
            part = sections.block(text, self.block)
        else:
            return self.lines
        return f"{part.start_line}-{part.end_line}"


def read(
    view: VaultView, texts: Texts, paths: Sequence[str], chosen: ChosenNotes, max_tokens: int, *, remark: str = ""
) -> CallToolResult:
    """Returns notes, or a part of each, as far as they fit, and remarks about them.

    The texts are kept in `texts`, in case somebody else changes the note before the caller does. Raises
    `ResourceMissing` or `EditRefused` if only one note was asked for and it, or its part, does not exist.
    """
    if not paths:
        raise EditRefused("Name at least one note, as in paths=['Projects/Plan.md'].")
    room = max_tokens * CHARACTERS_PER_TOKEN
    pieces, images, problems, unread = list[ExcerptResult](), list[ImageContent](), list[str](), list[str]()
    for path in dict.fromkeys(paths):
        if room <= 0:
            unread.append(path)
            continue
        try:
            piece = _piece(view, texts, path, chosen, room=room, images=images)
        except (BadPath, EditRefused, ResourceMissing, NotText, NotThere, FileTooLarge) as error:
            if len(paths) == 1:
                raise
            problems.append(f"{path}: {error}")
            continue
        room -= len(piece["text"])
        pieces.append(piece)
    if unread:
        problems.append(f"Not read, for lack of room: {', '.join(unread)}. Ask for them again, or raise max_tokens.")
    said = [*filter(None, [remark]), *problems]
    if not pieces:
        raise EditRefused("\n".join(said))
    return results.texts("\n\n".join([*map(_shown, pieces), *said]), pieces, images)


def _piece(
    view: VaultView, texts: Texts, path: str, chosen: ChosenNotes, *, room: int, images: list[ImageContent]
) -> ExcerptResult:
    found, *others = meant(view, path)
    if mime_type(found).startswith("image/") and (image := _image(view, found)):
        images.append(image[1])
        return image[0]
    try:
        content = Disk(view.vault).read(found)
    except NotThere as error:
        if view.status.phase != "away":
            raise
        where = "the vault cannot be reached at present. Try again when its folder is back"
        raise NotThere(f"{found!r} cannot be read: {where}.") from error
    if content.problem and "\0" in content.text:
        raise NotText(f"{found!r} is not text. Read the resource {uri('attachment', found)}.")
    remarks = [f"{path!r} could also be {listed(map(repr, others))}."] if others else []
    computed = _computed(view, found, content.text, chosen)
    if computed is None:
        shown = excerpt(content.text, chosen.of(content.text), room)
    else:
        shown = excerpt(computed, "", room)
        rest = f"The rest is left out. Ask with max_tokens={_tokens(len(computed))}."
        shown = shown._replace(left_out=shown.left_out and rest)
        remarks.append("This is its result; lines='1-' shows its source.")
    if content.problem:
        remarks.append(f"What could not be read is shown as \ufffd: {content.problem}.")
    texts.keep(content.version, content.text)
    lines, total = str(shown.lines or 0), shown.total
    piece = ExcerptResult(path=found, version=content.version, text=shown.text, lines=lines, total_lines=total)
    if shown.left_out:
        piece["left_out"] = shown.left_out
    if remarks:
        piece["note"] = " ".join(remarks)
    return piece


def _computed(view: VaultView, path: str, text: str, chosen: ChosenNotes) -> str | None:
    """Returns what a base or canvas shows; None for other files, and if lines of the file itself are wanted."""
    file = view.queries.file(path)
    if chosen.lines or chosen.block or file is None or file.kind not in ("base", "canvas"):
        return None
    if file.kind == "canvas":
        return canvas_outline(text)
    now = datetime.now()  # noqa: DTZ005 - local
    shown = base_views.shown_views(view, file, name=chosen.section, today=now.date(), now=now)
    return "\n".join(base_views.as_markdown(each, 0, MOST_ITEMS) for each in shown)


def _image(view: VaultView, path: str) -> tuple[ExcerptResult, ImageContent] | None:
    """Returns a file that is an image, by its first bytes. Raises `FileTooLarge`."""
    try:
        data, _ = read_file(view.vault.locate(path), LARGEST_IMAGE)
    except OverflowError as error:
        size = f"{error.args[0]:,} bytes. Images of up to {LARGEST_IMAGE:,} bytes are shown."
        raise FileTooLarge(f"{path!r} has {size} Read the resource {uri('attachment', path)}.") from error
    except OSError:
        return None
    kind = next((kind for start, kind in _IMAGES.items() if re.match(start, data, re.DOTALL)), None)
    if kind is None:
        return None
    piece = ExcerptResult(path=path, version=version_of(data), text="", lines="0", total_lines=0)
    piece["note"] = f"It is an image, {kind}, of {len(data):,} bytes."
    return piece, ImageContent(type="image", data=b64encode(data).decode(), mime_type=kind)


def _shown(piece: ExcerptResult) -> str:
    total = piece["total_lines"]
    whole = piece["lines"] == (f"1-{total}" if total > 1 else str(total)) and not piece.get("left_out")
    which = counted(total, "line") if whole else f"lines {piece['lines']} of {total:,}"
    head = f"=== {piece['path']} (version {piece['version']}, {which}) ==="
    said = [*filter(None, [head, piece.get("note")]), "", piece["text"].removesuffix("\n")]
    return "\n".join([*said, *filter(None, [piece.get("left_out")])])


def periodic_path(view: VaultView, day: date, period: str) -> str | None:
    """Returns the path of the note of a date, or of its week and so on; None if there is none."""
    return next((path for path in view.periodic_places(day, period) if view.vault.locate(path).is_file()), None)


def periodic(
    view: VaultView, texts: Texts, day: date, period: str, max_tokens: int, *, cure: str = "", note: str = ""
) -> CallToolResult:
    """Returns the note of a date, or of its week and so on. Raises `ResourceMissing` with its place and `cure`."""
    path = periodic_path(view, day, period)
    if path is None:
        where = " or ".join(map(repr, view.periodic_places(day, period)))
        raise ResourceMissing(f"There is no {period} note of {day}. It would be {where}. {cure}".rstrip())
    return read(view, texts, [path], ChosenNotes(), max_tokens, remark=note)


def parse_day(text: str) -> date:
    """Parses a date: ISO 8601, today, yesterday or tomorrow. Raises `EditRefused`."""
    near = {"": 0, "today": 0, "yesterday": -1, "tomorrow": 1}
    word = text.strip().lower()
    if word in near:
        return local_today() + timedelta(days=near[word])
    if day := iso_date(word):
        return day
    raise EditRefused(f"{text!r} is not a date. Write one such as '2026-01-31', 'today', 'yesterday' or 'tomorrow'.")


def info(view: VaultView, texts: Texts, path: str) -> CallToolResult:
    """Returns the facts about a file, or about the vault. Raises `ResourceMissing`."""
    facts: Info = _file_info(view, texts, path) if path else {}
    if not path:
        facts |= {"vaults": [mount.name for mount in view.vault.mounts if mount.name], **view.queries.stats()}
        facts["properties"] = dict(islice(view.queries.properties_in_use().items(), _MOST))
        notes = [view.status.standing, *view.status.notes, *view.journal.recovered]
        facts |= {"index": view.status.phase, "note": " ".join(dict.fromkeys(filter(None, notes)))}
    data = {name: value for name, value in facts.items() if value not in (None, "", [], {})}
    return answer("\n".join(f"{name}: {_fact(value)}" for name, value in data.items()), data)


def _file_info(view: VaultView, texts: Texts, path: str) -> Info:
    queries, found = view.queries, meant(view, path)[0]
    file = queries.file(found)
    if file is None:
        raise ResourceMissing(f"{found!r} is not in the index yet. Try again, or read it.")
    if file.hash and (text := queries.text(found)) is not None:
        texts.keep(file.hash, text)  # A later conflict can say what has changed.
    facts: Info = {"path": file.path, "kind": file.kind, "version": file.hash, "modified": iso(file.mtime)}
    facts |= {"size": file.size, "open": view.app_link(file.path), "problem": file.problem}
    if file.kind == "note":
        tasks, headings, blocks = queries.tasks(file.path), queries.headings(file.path), queries.blocks(file.path)
        still_open = sum(task.status == " " for task in tasks)
        facts |= {"words": file.words, "aliases": queries.aliases(file.path), "properties": file.properties}
        facts |= {"tags": queries.tags_of(file.path), "headings": [each._asdict() for each in headings[:_MOST]]}
        facts |= {"blocks": [each._asdict() for each in blocks[:_MOST]]}
        facts["left_out"] = max(len(headings) - _MOST, 0) + max(len(blocks) - _MOST, 0) or None
        facts["tasks"] = {"open": still_open, "done": len(tasks) - still_open} if tasks else None
    facts["links"] = {"out": queries.count("links", file.path), "back": len(graph.backlinks(queries, file.path))}
    return facts | {"note": view.status.standing}


def _fact(value: Any) -> str:
    match value:
        case [{"level": _}, *_]:
            return "".join(f"\n  {'#' * each['level']} {each['text']} (line {each['line']})" for each in value)
        case [{"id": _}, *_]:
            return ", ".join(f"^{each['id']} (line {each['line']})" for each in value)
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case int():
            return f"{value:,}"
        case _:
            return str(value)

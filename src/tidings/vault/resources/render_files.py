"""The content of the resources that are one file each: notes, daily notes, attachments.

A note is read from the index, so that what is sent is what was compared when subscribers were told. Other files are not
in the index, and are read from the disk.
"""

from datetime import date
from typing import Any, Final

from tidings.vault.files.parts import line_starts
from tidings.vault.files.path_rules import BadPath
from tidings.vault.files.paths import uri
from tidings.vault.files.regular import read_regular
from tidings.vault.index import graph
from tidings.vault.index.query_rows import FileRow
from tidings.vault.resources.addresses import Address
from tidings.vault.resources.dailies import daily_places
from tidings.vault.resources.mime import MARKDOWN, is_text, mime_type
from tidings.vault.resources.shapes import Json, NotFound, Rendered, TooLarge, iso
from tidings.vault.view import View

LARGEST: Final = 10_000_000
"""How many bytes of an attachment are sent at most."""

_MOST: Final = 500
"""How many headings, links, … a summary lists of each."""


def find_file(view: View, text: str) -> FileRow:
    """The file that is meant by a path as users write it.

    Raises:
        NotFound: There is none.
    """
    if match := view.queries.find(text):
        return match.file
    raise NotFound(f"There is no file {text!r} in the vault.", text)


def find_note(view: View, address: Address, today: date) -> FileRow:
    """The note that an address is about: by its path, or by its day.

    Raises:
        NotFound: There is none.
    """
    if address.kind == "daily":
        return _daily(view, today if address.argument == "today" else date.fromisoformat(address.argument))
    file = find_file(view, address.argument)
    if file.kind != "note":
        raise NotFound(f"{file.path!r} is no note. Read {uri('attachment', file.path)}.")
    return file


def note(view: View, file: FileRow, address: Address) -> Rendered | Json:
    """A note: its text, some lines of it, or a summary.

    Raises:
        TooLarge: It was too large to be read.
    """
    if address.mode == "summary":
        return _summary(view, file)
    text = _text(view, file)
    if address.offset or address.page is not None:
        starts = line_starts(text)
        first = min(address.offset, len(starts) - 1)
        last = len(starts) - 1 if address.page is None else min(first + address.page, len(starts) - 1)
        text = text[starts[first] : starts[last]]
    return Rendered(MARKDOWN, text)


def attachment(view: View, file: FileRow) -> Rendered:
    """A file as it is on the disk: as text if it is one.

    Raises:
        NotFound: It cannot be read.
        TooLarge: It is too large to be sent.
    """
    if file.kind == "note":
        return Rendered(MARKDOWN, _text(view, file))
    try:
        data = read_regular(view.vault.locate(file.path), LARGEST)
    except BadPath as error:
        raise NotFound(str(error)) from error
    except OverflowError as error:
        size = f"{error.args[0]:,} bytes. At most {LARGEST:,} are sent: open it on the disk."
        raise TooLarge(f"{file.path!r} has {size}") from error
    except OSError as error:
        away = " The vault cannot be reached at present." if view.status.phase == "away" else ""
        raise NotFound(f"{file.path!r} cannot be read: {error.strerror}.{away}") from error
    kind = mime_type(file.path)
    if is_text(kind):
        try:
            return Rendered(kind, data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            pass  # Whoever asked can see what to make of the bytes.
    return Rendered(kind, None, data)


def details(view: View, file: FileRow) -> Json:
    """What `mode=full` adds to a file in a list."""
    more: Json = {"modified": iso(file.mtime), "size": file.size}
    if file.kind == "note":
        more |= {"words": file.words, "tags": view.queries.tags_of(file.path), "properties": file.properties}
    # Whether an attachment was hashed depends on how many came at once.
    version = None if file.kind == "attachment" else file.hash
    return more | _if_any(version=version, problem=file.problem)


def _daily(view: View, day: date) -> FileRow:
    places = daily_places(view, day)
    for path in places:
        if file := view.queries.file(path):
            return file
    raise NotFound(f"There is no daily note of {day}. It would be {' or '.join(map(repr, places))}.")


def _text(view: View, file: FileRow) -> str:
    text = view.queries.text(file.path)
    if file.hash is None or text is None:
        raise TooLarge(f"{file.path!r} has {file.size:,} bytes. {file.problem or 'It was not read.'}")
    return text


def _summary(view: View, file: FileRow) -> Json:
    queries, path = view.queries, file.path
    tags = queries.tags_of(path)
    lists: dict[str, list[Any]] = {
        "tags": tags[:_MOST],
        "headings": [heading._asdict() for heading in queries.headings(path, _MOST)],
        "links": [_link(link) for link in graph.outgoing(queries, path)[:_MOST]],
        "tasks": [
            {"line": task.line, "status": task.status, "text": task.text}
            for task in queries.tasks(path=path, limit=_MOST)
        ],
    }
    totals = {"tags": len(tags)} | {table: queries.count(table, path) for table in ("headings", "links", "tasks")}
    left_out = {name: total - _MOST for name, total in totals.items() if total > _MOST}
    return {
        "path": path,
        "title": file.title,
        **_if_any(aliases=queries.aliases(path), problem=file.problem),
        "version": file.hash,
        "modified": iso(file.mtime),
        "size": file.size,
        "words": file.words,
        "properties": file.properties,
        **lists,
        **_if_any(left_out=left_out),
    }


def _link(link: graph.Seen) -> Json:
    """A link as it is written, and where it leads: nowhere, maybe."""
    written: Json = {"target": link.target + link.subpath, "path": link.leads_to, "line": link.line}
    return written | ({"embed": True} if link.embed else {})


def _if_any(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value}

"""From one file on the disk to one entry of the index, with its rows. Runs in worker processes, and imports little.

`read_file` never raises: the entry of a file that cannot be read, or is not text, says so; a file that does not exist,
or keeps changing, is `Missed`. A text is indexed in lower case. Each character of a script without spaces (Chinese,
Japanese, Thai …) is a word of its own. Words are never split where SQLite's tokenizer does not split.
"""

import codecs
import errno
import json
import logging
import os
import pickle
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, cast

from tidings._kit.bounded_json import as_float
from tidings._kit.files import READING
from tidings.vault.files.saves import is_settled
from tidings.vault.notes import parse
from tidings.vault.notes.canvas import canvas_links, canvas_text
from tidings.vault.notes.links import link_name
from tidings.vault.notes.model import SEARCHED, IndexEntry, Kind, Note, Stamp, key, version_of

logger = logging.getLogger(__name__)

Row = tuple[Any, ...]

_ATTEMPTS: Final = 3
_PAUSE: Final = 0.004  # Seconds between two attempts: most programs save a file in less.
# Times this close count as equal, where a file system counts in seconds: the coarsest counts in two.
_RACY_NS: Final = 2_000_000_000
_RACY_FINE_NS: Final = 100_000_000  # The same where it counts in parts of a second: some ticks of the system's clock.
_BINARY_BYTES: Final = 8192
UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OPEN: Final = READING | getattr(os, "O_NOFOLLOW", 0)
_KINDS: Final[dict[str, Kind]] = {".md": "note", ".canvas": "canvas", ".base": "base"}

READ_AGAIN: Final = -1  # A ctime that no file has: the next look finds the file changed.
LARGEST: Final = 20_000_000  # Bytes. Of larger files, only the name is known.


# Punctuation; Thai, Lao, Tibetan, Myanmar, Khmer, Tai; kana and Han with their extensions.
_ALONE: Final = re.compile(
    "[\u00a0\u00ab\u00bb\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u2000-\u206f\u2e80-\u2fff\u3000-\u30ff"
    "\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff0f\uff1a-\uff20\uff5b-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]"
)
_BETWEEN: Final = bytes(n if n > 127 or chr(n).isalnum() else 32 for n in range(256))  # Of ASCII, letters and digits.


class WalkedFile(NamedTuple):
    """A file on the disk, to be read if it has changed."""

    path: str
    kind: Kind
    stamp: Stamp
    root: str  # The vault's folder.
    inner: str  # The path within it.
    emptied: bool = False  # It had a text when it was last read.


class Missed(NamedTuple):
    """A file that could not be read, and gets no entry."""

    path: str
    why: Literal["gone", "unsettled"]  # Unsettled: it kept changing, or its disk has an error. It is to be read later.


def make_entry(
    path: str, kind: Kind, stamp: Stamp, *, version: str = "", text: str = "", note: Note | None = None, why: str = ""
) -> IndexEntry:
    """Returns the entry of a file; of one that was not read, if only the first three are given."""
    name = path.rpartition("/")[2]
    title = note.title if note else name if kind == "attachment" else name.rpartition(".")[0]
    problems = " ".join(filter(None, [why, note and note.problem])) or None
    vocabulary = distinct_words((title, text)) if kind in SEARCHED else ""
    if note is None:
        return IndexEntry(path, kind, stamp, version or None, text, title, 0, "{}", problems, {}, vocabulary)
    rows = {table: some for table, find in _FOUND.items() if (some := [*find(note)])}
    properties = _json(note.properties)
    return IndexEntry(path, kind, stamp, version, text, title, note.words, properties, problems, rows, vocabulary)


def name_key(path: str, kind: str) -> str:
    """Returns the name of a file as in `files.name`."""
    name = key(path.rpartition("/")[2])
    return name[:-3] if kind == "note" else name


_FOUND: Final[Mapping[str, Callable[[Note], Iterable[Row]]]] = {
    "tags": lambda note: ((key(tag.name), tag.name, tag.line) for tag in note.tags),
    "links": lambda note: (
        (link_name(link.target), link.target, link.subpath, link.shown, link.kind, link.embed, *link[5:])
        for link in note.links
    ),
    "headings": lambda note: ((heading.level, heading.text, heading.line) for heading in note.headings),
    "blocks": lambda note: ((block.id, block.line) for block in note.blocks),
    "tasks": lambda note: note.tasks,
    "properties": lambda note: ((key(name), *row) for name, some in note.properties.items() for row in _values(some)),
    "aliases": lambda note: ((key(alias), alias) for alias in note.aliases),
}


def _values(value: Any) -> list[tuple[str | None, float | None]]:
    items = (cast("list[Any]", value) or [None]) if isinstance(value, list | tuple) else [value]
    return [(item, None) if item is None or isinstance(item, str) else (_json(item), as_float(item)) for item in items]


def _json(value: Any) -> str:
    """Returns a value of a YAML block as JSON; what JSON cannot express (`.nan`, a recursive value) as text."""
    with suppress(ValueError, TypeError, RecursionError):
        return json.dumps(value, default=str, allow_nan=False)
    if isinstance(value, dict):
        parts = {str(name): _json(part) for name, part in cast("dict[Any, Any]", value).items() if part is not value}
        return f"{{{', '.join(f'{json.dumps(name)}: {part}' for name, part in parts.items())}}}"
    return json.dumps(str(value)[:1000])


def folded(text: str) -> str:
    """Returns a text as it is indexed."""
    return text.lower() if text.isascii() else _ALONE.sub(r" \g<0> ", text.lower())


def words_in(text: str) -> list[str]:
    """Returns the words of a text that `folded` returned."""
    return [word.decode() for word in text.encode(errors="replace").translate(_BETWEEN).split()]


def distinct_words(texts: Iterable[str]) -> str:
    """Returns each word of some texts once, one in each line."""
    together = folded("\n".join(texts)).encode(errors="replace")
    return b"\n".join(set(together.translate(_BETWEEN).split())).decode()


def kind_of(name: str) -> Kind:
    """Returns the kind of a file by its extension."""
    _, dot, extension = name.rpartition(".")
    return _KINDS.get(f"{dot}{extension.lower()}", "attachment")


def stamp_of(status: os.stat_result) -> Stamp:
    """Returns the stamp of a file."""
    inode = status.st_ino
    # SQLite has no unsigned numbers.
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode - (inode >> 63 << 64))


def name_only(seen: WalkedFile, problem: str = "") -> IndexEntry:
    """Returns the entry of a file that is not read."""
    return make_entry(seen.path, seen.kind, _settled(seen.stamp, time.time_ns()), why=problem)


def read_attachment(seen: WalkedFile) -> IndexEntry:
    """Returns the entry of an attachment: its name, and its hash if it does not change while it is read."""
    entry = name_only(seen)
    with suppress(OSError, OverflowError):
        stamp, data = _content(seen, seen.stamp.size)
        entry = entry._replace(hash=version_of(data)) if stamp == seen.stamp else entry
    return entry


def answer(files: list[WalkedFile]) -> bytes:
    """Reads files in a worker process. Returns the pickled results."""
    return pickle.dumps([read_file(seen) for seen in files], pickle.HIGHEST_PROTOCOL)


def read_file(seen: WalkedFile) -> IndexEntry | Missed:
    """Reads a file."""
    try:
        for _ in range(_ATTEMPTS):
            now = time.time_ns()
            stamp, data = _content(seen, LARGEST)
            if stamp is not None:
                return _entry(seen, _settled(stamp, now), data)
            time.sleep(_PAUSE)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return Missed(seen.path, "gone")
    except PermissionError:
        return name_only(seen, "It may not be read: this user has no permission.")
    except OverflowError:
        return name_only(seen, f"It is larger than {LARGEST:,} bytes and was not read.")
    except (OSError, MemoryError):
        pass
    return Missed(seen.path, "unsettled")


def read_bytes(root: str, inner: str) -> bytes:
    """Returns the content of a file as it is at this moment; nothing if it cannot be read, or is too large."""
    with suppress(OSError, MemoryError), os.fdopen(_open(root, inner), "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size <= LARGEST:
            return file.read()
    return b""


def text_of(kind: Kind, data: bytes) -> str:
    """Returns the text of a note or a canvas with this content."""
    text = decode(data)[0]
    return canvas_text(text) if kind == "canvas" else text


def _content(seen: WalkedFile, largest: int) -> tuple[Stamp | None, bytes]:
    """Returns the stamp of a regular file and its bytes. None: it is being written. Raises `OverflowError`."""
    with os.fdopen(_open(seen.root, seen.inner), "rb") as file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise FileNotFoundError(seen.path)
        if before.st_size > largest:
            raise OverflowError(before.st_size)
        if not is_settled(file.fileno(), before, trusted=not seen.emptied):
            return None, b""
        data = file.read(before.st_size + 1)
        after = os.fstat(file.fileno())
    stamp = stamp_of(after)
    return stamp if stamp_of(before) == stamp and len(data) == stamp.size else None, data


def _open(root: str, inner: str) -> int:
    place = os.path.join(root, inner)  # noqa: PTH118 - faster
    try:
        return os.open(place, _OPEN)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    real = os.path.realpath(place)
    if os.path.commonpath([root, real]) != root:
        raise FileNotFoundError(place)
    return os.open(real, _OPEN)


def _settled(stamp: Stamp, now: int) -> Stamp:
    """Returns the stamp to store: a file that changed just before it was read may change again in the same tick."""
    for when in (stamp.mtime, stamp.ctime):
        if abs(now - when) < (_RACY_FINE_NS if when % 1_000_000_000 else _RACY_NS):
            return stamp._replace(ctime=READ_AGAIN)
    return stamp


def _entry(seen: WalkedFile, stamp: Stamp, data: bytes) -> IndexEntry:
    text, problem = decode(data)
    note = None
    try:
        if seen.kind == "canvas":
            note, text = _canvas(text, seen.path)
        elif seen.kind == "note":
            note = parse.parse(text, seen.path)
    except Exception as error:
        logger.exception("the text of %r could not be parsed", seen.path)
        problem = f"Its text could not be parsed ({type(error).__name__}: {error})."
    return make_entry(seen.path, seen.kind, stamp, version=version_of(data), text=text, note=note, why=problem)


def _canvas(text: str, path: str) -> tuple[Note, str]:
    """Returns the note that a canvas would be, and its words."""
    problem = None
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"It is not a canvas: {error}." if text.strip() else None
    words = canvas_text(text)
    title = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122
    return Note(title, {}, 0, (), (), (), (), tuple(canvas_links(text)), (), len(words.split()), problem), words


def decode(data: bytes) -> tuple[str, str]:
    """Returns the text of some bytes, and the problem with it, if any. Binary content gives an empty text."""
    codec, name = ("utf-16", "UTF-16") if data.startswith(UTF16) else ("utf-8", "UTF-8")
    data, problem = data.removeprefix(codecs.BOM_UTF8), ""
    if name == "UTF-8" and b"\0" in data[:_BINARY_BYTES]:
        return "", "It is binary, although its name says that it is text."
    try:
        text = data.decode(codec)
    except UnicodeDecodeError as error:
        text = data.decode(codec, errors="replace")
        problem = f"It is not valid {name} from byte {error.start} on: invalid bytes are shown as \ufffd."
    return text.replace("\0", "\ufffd"), problem  # SQLite would end a text at NUL.

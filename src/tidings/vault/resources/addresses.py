"""The URIs of a vault's resources: the kinds, and an address taken apart.

A URI is `vault://KIND`, then for most kinds `/` and its argument, percent-encoded, then `?mode`, `?limit` and `?offset`
if the kind takes them. There are no fragments: an unencoded `#` stands for itself, so that `vault://tag/#idea` works.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from tidings._kit.text import quoted

_JSON: Final = "application/json"
_LIST: Final = ("mode", "limit", "offset")


class Family(NamedTuple):
    """The resources of one kind."""

    kind: str
    about: str
    """The template's expression for the argument; empty if there is only one resource of this kind."""
    title: str
    description: str
    mime_type: str | None
    """None if it differs."""
    takes: tuple[str, ...]
    """The parameters that the query may have."""
    limit: int | None
    """The default number of items on a page. None: all."""

    @property
    def template(self) -> str:
        """The URI template of the kind."""
        return f"{self.bare}{'{?' + ','.join(self.takes) + '}' if self.takes else ''}"

    @property
    def bare(self) -> str:
        """The template without the query; the URI itself if there is only one."""
        return f"vault://{self.kind}{'/' if self.about else ''}{self.about}"

    @property
    def shown(self) -> str:
        """An example of a URI, for messages."""
        return self.bare.replace("{+", "{")


FAMILIES: Final[Mapping[str, Family]] = {
    family.kind: family
    for family in (
        Family(
            "recent",
            "",
            "Recently changed notes",
            "The notes, canvases and bases that were changed last, newest first.",
            _JSON,
            _LIST,
            20,
        ),
        Family(
            "stats",
            "",
            "Statistics",
            "How many notes, folders, attachments, tags, links and tasks the vault has.",
            _JSON,
            ("mode",),
            None,
        ),
        Family(
            "tags",
            "",
            "Tags",
            "All tags, with the number of notes that have each.",
            _JSON,
            _LIST,
            200,
        ),
        Family(
            "structure",
            "",
            "Folders",
            "The tree of folders with the number of notes in each; three levels, or all of them and the notes' names "
            "with mode=full.",
            _JSON,
            _LIST,
            200,
        ),
        Family(
            "note",
            "{+path}",
            "Note",
            "A note's text, or some of its lines (offset, limit); with mode=summary its title, properties, headings, "
            "tags, links, tasks, size and version. The path may lack '.md' or be the note's bare name.",
            None,
            _LIST,
            None,
        ),
        Family(
            "folder",
            "{+path}",
            "Folder",
            "What a folder holds: its folders, then its notes and other files.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "tag",
            "{+tag}",
            "Notes with a tag",
            "The notes that have a tag, or one nested in it.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "backlinks",
            "{+path}",
            "Backlinks",
            "The links that lead to a note or another file, with their lines.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "search",
            "{query}",
            "Search",
            'What a search finds, newest first. Takes Obsidian\'s search syntax: words, "a phrase", tag:, path:, '
            "file:, [property:value], -not, OR.",
            _JSON,
            _LIST,
            20,
        ),
        Family(
            "daily",
            "{date}",
            "Daily note",
            "The daily note of a date such as 2026-01-31, or of 'today'; as a note otherwise.",
            None,
            _LIST,
            None,
        ),
        Family(
            "attachment",
            "{+path}",
            "Attachment",
            "An image, a PDF or another file, as it is; canvases and bases as text.",
            None,
            (),
            None,
        ),
    )
}


Mode = Literal["summary", "full"]

MOST_ITEMS: Final = 1000
"""The largest number of items on one page of a list."""

MOST_LINES: Final = 10_000_000


class BadAddress(ValueError):
    """The text is not the URI of a resource of a vault. The message says what is allowed."""


class VaultAddress(NamedTuple):
    """A URI of a vault, taken apart."""

    kind: str
    argument: str
    """Decoded: a path, a tag without `#`, a query, a date. Empty for kinds without an argument."""
    mode: Mode | None
    """None if not given."""
    limit: int | None
    """None if not given."""
    offset: int

    @property
    def family(self) -> Family:
        return FAMILIES[self.kind]

    @property
    def page(self) -> int | None:
        """The number of items to show. None: all."""
        return self.family.limit if self.limit is None else self.limit

    @property
    def full(self) -> bool:
        """True if more than a summary is requested."""
        return self.mode == "full"

    @property
    def uri(self) -> str:
        """The normalized URI."""
        safe = "" if self.family.about == "{query}" else "/"
        about = f"/{quote(self.argument, safe=safe)}" if self.family.about else ""
        asked = {"mode": self.mode, "limit": self.limit, "offset": self.offset or None}
        query = "&".join(f"{name}={value}" for name, value in asked.items() if value is not None)
        return f"vault://{self.kind}{about}{'?' + query if query else ''}"


def parse_address(uri: str) -> VaultAddress:
    """Parses a URI. Raises `BadAddress` if it is not one of a vault, or has parameters that its kind does not take."""
    scheme, _, rest = uri.partition("://")
    place, _, query = rest.partition("?")
    kind, _, about = place.partition("/")
    kind = kind.lower()
    if scheme.lower() != "vault" or kind not in FAMILIES:
        known = ", ".join(family.shown for family in FAMILIES.values())
        raise BadAddress(f"{quoted(uri)} is no URI of a vault. There are: {known}.")
    family = FAMILIES[kind]
    return VaultAddress(kind, _about(family, about, uri), *_asked(family, query, uri))


def _about(family: Family, text: str, uri: str) -> str:
    try:
        about = unquote(text, errors="strict")
        about.encode()
    except UnicodeError:
        raise BadAddress(f"{quoted(uri)} encodes bytes that are no text. Percent-encode it as UTF-8.") from None
    if not family.about:
        if about.strip("/"):
            raise BadAddress(f"There is nothing below {family.shown}. Ask for that alone, or for {family.template}.")
        return ""
    if family.kind == "search":
        about = about.strip()
    elif family.kind == "tag":
        about = about.strip().lstrip("#").strip("/")
    else:
        about = about.strip("/")
    if not about and family.kind != "folder":
        raise BadAddress(f"{quoted(uri)} does not say which. Write {family.shown}.")
    if family.kind == "daily":
        return _day(about)
    return about


def _day(text: str) -> str:
    if text.lower() == "today":
        return "today"
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise BadAddress(f"{quoted(text)} is not a date. Write one such as 2026-01-31, or 'today'.")


def _asked(family: Family, query: str, uri: str) -> tuple[Mode | None, int | None, int]:
    pairs = parse_qsl(query, keep_blank_values=True)
    asked = dict(pairs)
    if len(asked) < len(pairs) or not asked.keys() <= set(family.takes):
        allowed = " and ".join(filter(None, [", ".join(family.takes[:-1]), *family.takes[-1:]]))
        raise BadAddress(
            f"The query of {quoted(uri)} is not understood: {family.shown} takes {allowed or 'none'}"
            f"{', each once' if allowed else ''}. A '?' that belongs to a name is written %3F."
        )
    mode = _mode(asked.get("mode"))
    of_lines = family.limit is None
    limit = _number("limit", asked.get("limit"), 1, MOST_LINES if of_lines else MOST_ITEMS)
    offset = _number("offset", asked.get("offset"), 0, MOST_LINES)
    if mode == "summary" and of_lines and (limit is not None or offset is not None):
        raise BadAddress("limit and offset choose lines of the text. Leave them out, or leave out mode=summary.")
    return mode, limit, offset or 0


def _mode(text: str | None) -> Mode | None:
    match text:
        case None | "summary" | "full":
            return text
        case _:
            raise BadAddress(f"There is no mode {quoted(text)}. Choose 'summary' or 'full'.")


def _number(name: str, text: str | None, least: int, most: int) -> int | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text) and least <= int(text) <= most:
        return int(text)
    raise BadAddress(f"{name} cannot be {quoted(text)}. Give a whole number from {least} to {most}.")

"""The URIs of a vault's resources: the kinds, and an address taken apart.

An unencoded `#` stands for itself, so that `vault://tag/#idea` works.
"""

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, cast
from urllib.parse import quote

from tidings._kit.text import quoted
from tidings.server.families import BadAddress, ResourceFamily, ResourceKind
from tidings.vault.files.obsidian import PERIODS
from tidings.vault.files.paths import BadPath, check_possible
from tidings.vault.search.query import BadQuery, parse_query
from tidings.vault.view import iso_date

JSON: Final = "application/json"

Mode = Literal["summary", "full"]

MOST_ITEMS: Final = 1000  # The largest number of items on one page of a list.
MOST_LINES: Final = 10_000_000
_LIST: Final = ("mode", "limit", "offset")
_CHECKS: Final[dict[str, Callable[[str], object]]] = {"{query}": parse_query, "{+path}": check_possible}
CHOICES: Final = {"mode": ("summary", "full"), "format": ("markdown", "json"), "depth": ("1", "2")}
"""The values of parameters that have few."""


def _list(name: str, argument: str, title: str, description: str, page_size: int) -> ResourceKind:
    return ResourceKind(name, argument, title, description, JSON, _LIST, page_size)


_RECENT = "The notes, canvases and bases that were changed last, newest first."
_STATS = "How many notes, folders, attachments, tags, links and tasks the vault has."
_STRUCTURE = (
    "The tree of folders with the number of notes in each; three levels, or all of them and the notes' names with "
    "mode=full."
)
_NOTE = (
    "A note's text, or some of its lines (offset, limit); with mode=summary its title, properties, headings, tags, "
    "links, tasks, size and version. The path may lack '.md' or be the note's bare name."
)
_HISTORY = "The writes of agents, newest first, with the id for `undo`; what each changed, as a diff, with mode=full."
_SEARCH = (
    'What a search finds, newest first. Takes Obsidian\'s search syntax: words, "a phrase", tag:, path:, file:, '
    "[property:value], -not, OR."
)
_CANVAS = "A canvas as text: its cards in their groups, with links, and the connections between them."
_HUBS = "The files that the most other files link to."
_NEAR = "The files within one or two links of a note, with the direction of the link and the file between."
_BASE = (
    "The result of a base, or of the bases in a note: each view, or one, as a Markdown table or as rows (format=json). "
    "`this` is the note that shows it."
)
_ATTACHMENT = "An image, a PDF or another file, as it is; canvases and bases as text."


def _periodic(period: str) -> str:
    which = "of" if period == "daily" else "of the period with"
    return f"The {period} note {which} a date such as 2026-01-31, or 'today'; as a note otherwise."


FAMILY: Final = ResourceFamily(
    "vault",
    _list("recent", "", "Recently changed notes", _RECENT, 20),
    ResourceKind("stats", "", "Statistics", _STATS, JSON, ("mode",)),
    _list("tags", "", "Tags", "All tags, with the number of notes that have each.", 200),
    ResourceKind("hubs", "", "Most linked notes", _HUBS, JSON, ("limit", "offset"), 20),
    _list("structure", "", "Folders", _STRUCTURE, 200),
    _list("history", "", "History of writes", _HISTORY, 20),
    ResourceKind("note", "{+path}", "Note", _NOTE, None, _LIST),
    _list("folder", "{+path}", "Folder", "What a folder holds: its folders, then its notes and other files.", 100),
    _list("tag", "{+tag}", "Notes with a tag", "The notes that have a tag, or one nested in it.", 100),
    _list("backlinks", "{+path}", "Backlinks", "The links that lead to a note or another file, with their lines.", 100),
    _list("search", "{query}", "Search", _SEARCH, 20),
    *(ResourceKind(period, "{date}", f"{period.title()} note", _periodic(period), None, _LIST) for period in PERIODS),
    ResourceKind("canvas", "{+path}", "Canvas", _CANVAS, "text/markdown"),
    ResourceKind("neighbourhood", "{+path}", "Neighbourhood", _NEAR, JSON, ("depth", "limit", "offset"), 100),
    ResourceKind("base", "{+path}", "Base", _BASE, None, ("view", "format", "this", "limit", "offset"), MOST_ITEMS),
    ResourceKind("attachment", "{+path}", "Attachment", _ATTACHMENT),
)


class VaultAddress(NamedTuple):
    """A URI of a vault, taken apart."""

    kind: str
    argument: str  # Decoded: a path, a tag without `#`, a query, a date. Empty for kinds without an argument.
    mode: Mode | None
    limit: int | None
    offset: int
    choices: tuple[tuple[str, str], ...] = ()  # The parameters of its kind alone.

    @property
    def page(self) -> int | None:
        """The number of items to show. None: all."""
        return FAMILY[self.kind].page_size if self.limit is None else self.limit

    @property
    def full(self) -> bool:
        return self.mode == "full"

    @property
    def uri(self) -> str:
        choices = {name: quote(value, safe="/") for name, value in self.choices}
        query = {"mode": self.mode, **choices, "limit": self.limit, "offset": self.offset or None}
        return FAMILY.uri(self.kind, self.argument, query)


def parse_address(uri: str) -> VaultAddress:
    """Parses a URI. Raises `BadAddress` if no vault can ever have such a resource.

    That is the one rule for reading and subscribing. The resource may not exist, or not yet.
    """
    kind, argument, query = FAMILY.split(uri)
    if kind.name == "tag":
        # The lookbehind keeps a long run of slashes in the middle from being tried from each of them.
        argument = re.sub(r"^[\s#/]+|(?<![\s/])[\s/]+$", "", argument)
    argument = argument.strip() if kind.name == "search" else argument.strip("/")
    if kind.argument and not argument and kind.name != "folder":
        raise BadAddress(f"{quoted(uri)} does not say which. Write {FAMILY.shown(kind)}.")
    if kind.name in PERIODS:
        day = "today" if argument.lower() == "today" else iso_date(argument)
        if day is None:
            raise BadAddress(f"{quoted(argument)} is not a date. Write one such as 2026-01-31, or 'today'.")
        argument = str(day)
    try:
        if argument and kind.argument in _CHECKS:
            _CHECKS[kind.argument](argument)
    except (BadQuery, BadPath) as error:
        raise BadAddress(str(error)) from error
    for name, allowed in CHOICES.items():
        if query.get(name, allowed[0]) not in allowed:
            raise BadAddress(f"There is no {name} {quoted(query[name])}. Choose {' or '.join(map(repr, allowed))}.")
    mode = cast("Mode | None", query.get("mode"))
    of_lines = kind.page_size is None
    limit = _number("limit", query.get("limit"), 1, MOST_LINES if of_lines else MOST_ITEMS)
    offset = _number("offset", query.get("offset"), 0, MOST_LINES)
    if mode == "summary" and of_lines and (limit is not None or offset is not None):
        raise BadAddress("limit and offset choose lines of the text. Leave them out, or leave out mode=summary.")
    choices = tuple((name, value) for name, value in query.items() if name not in _LIST)
    return VaultAddress(kind.name, argument, mode, limit, offset or 0, choices)


def _number(name: str, text: str | None, least: int, most: int) -> int | None:
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text) and least <= int(text) <= most:
        return int(text)
    raise BadAddress(f"{name} cannot be {quoted(text)}. Give a whole number from {least} to {most}.")

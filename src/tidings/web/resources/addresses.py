"""The URIs of the web server's resources: `webfetch://KIND/ID`, and `?from=ID` for a diff.

Strict, so that nothing can be meant by a URI but what it says: the scheme and the kind are in lower case, an id is 16
hex digits, and nothing stands before, between or behind. A URL of the web is no URI of ours: reading never fetches.

May import: `families`.

The kinds of resources that the web server has.

May import: nothing of Tidings.

That there is no such resource, or no longer.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["packet", "content", "normalized", "screenshot", "raw", "page", "diff"]

SCHEME: Final = "webfetch://"

_JSON: Final = "application/json"


class Family(NamedTuple):
    """The resources of one kind."""

    kind: Kind
    about: Literal["source_id", "page_id"]
    """What the id in the URI is of: one version, which never changes, or a page, which does."""
    title: str
    description: str
    mime_type: str | None
    """None if it differs."""
    takes: str = ""
    """What may stand in the query."""

    @property
    def bare(self) -> str:
        """The template without the query."""
        return f"{SCHEME}{self.kind}/{{{self.about}}}"

    @property
    def template(self) -> str:
        """The URI template of all of them."""
        return f"{self.bare}{{?{self.takes}}}" if self.takes else self.bare

    @property
    def live(self) -> bool:
        """Whether it can change, and be subscribed to."""
        return self.about == "page_id"


FAMILIES: Final[Mapping[str, Family]] = {
    family.kind: family
    for family in (
        Family(
            "packet",
            "source_id",
            "Page, as a packet",
            "One version of a page: its content as markdown, metadata, outline, blocks with places, warnings, hashes.",
            _JSON,
        ),
        Family("content", "source_id", "Content", "The content of one version of a page.", "text/markdown"),
        Family("normalized", "source_id", "Page, without hashes", "One version of a page, without its hashes.", _JSON),
        Family("screenshot", "source_id", "Screenshot", "A picture of the page as it was rendered.", "image/png"),
        Family(
            "raw",
            "source_id",
            "Raw bytes",
            "The bytes as they came, if they were asked for or nothing here reads them.",
            None,
        ),
        Family(
            "page",
            "page_id",
            "Page, newest version",
            "The newest version of a page, with the versions before it. Subscribe to it to have the page watched and "
            "be told when its content changes.",
            _JSON,
        ),
        Family(
            "diff",
            "page_id",
            "What changed on a page",
            "The difference between the last two versions of a page, or from one of its versions to the newest. "
            "Subscribe to it to be told when there is a new one.",
            "text/x-diff",
            "from",
        ),
    )
}


_ID: Final = "[0-9a-f]{16}"
_URI: Final = re.compile(rf"{SCHEME}([a-z]+)/({_ID})(?:\?from=({_ID}))?", re.ASCII)
_BEGINNING: Final = re.compile(rf"{SCHEME}(?:({'|'.join(FAMILIES)})/[0-9a-f]{{0,16}})?\*", re.ASCII)
_SHOWN: Final = 100


class BadAddress(ValueError):
    """A text is no URI of something that this server has. Says what is one."""


class WebAddress(NamedTuple):
    """A URI, taken apart."""

    kind: Kind
    id: str
    since: str | None = None
    """The source_id that a diff begins with."""

    @property
    def family(self) -> Family:
        """What its kind is."""
        return FAMILIES[self.kind]

    @property
    def uri(self) -> str:
        """The one way to write it."""
        return f"{SCHEME}{self.kind}/{self.id}{f'?from={self.since}' if self.since else ''}"


def parse_address(uri: str) -> WebAddress:
    """What a URI asks for.

    Raises:
        BadAddress: It is no URI of ours.
    """
    found = _URI.fullmatch(uri)
    family = FAMILIES.get(found[1]) if found else None
    if found is None or family is None or (found[3] and not family.takes):
        raise BadAddress(_explained(uri))
    return WebAddress(family.kind, found[2], found[3])


def address(kind: Kind, id_: str) -> str:
    """The URI of one resource."""
    return f"{SCHEME}{kind}/{id_}"


def is_ours(text: str) -> bool:
    """Whether a subscription, a URI or a prefix ending in `*`, is of the shape of ours."""
    try:
        return _BEGINNING.fullmatch(text) is not None or bool(parse_address(text))
    except BadAddress:
        return False


def is_id(text: str) -> bool:
    """Whether this can be the id of a version or a page."""
    return re.fullmatch(_ID, text, re.ASCII) is not None


def source_id_of(text: str) -> str:
    """The id in a source_id, or in the URI of a version: people and models paste either.

    Raises:
        BadAddress: It is neither.
    """
    return _id_of(text, "source_id")


def page_id_of(text: str) -> str:
    """The id in a page_id, or in the URI of a page.

    Raises:
        BadAddress: It is neither.
    """
    return _id_of(text, "page_id")


def _id_of(text: str, about: str) -> str:
    text = text.strip()
    if text.startswith(SCHEME):
        parsed = parse_address(text)
        if parsed.family.about == about:
            return parsed.id
    elif is_id(text):
        return text
    example = "packet" if about == "source_id" else "page"
    raise BadAddress(
        f"{_shown(text)} is no {about}: give the 16 hex digits that `fetch` answered with, or {SCHEME}{example}/…"
    )


def _explained(uri: str) -> str:
    known = ", ".join(family.bare for family in FAMILIES.values())
    if re.match(r"https?:", uri, re.IGNORECASE):
        return f"{_shown(uri)} is no resource of this server: reading never fetches. Call the tool `fetch` with it."
    return f"{_shown(uri)} is no URI of this server. There are: {known}, where an id is 16 hex digits in lower case."


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


class NotFound(LookupError):
    """There is no such resource, or no longer. Says what to do."""

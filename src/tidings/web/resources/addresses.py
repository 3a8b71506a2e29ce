"""The URIs of the web server's resources: `webfetch://KIND/ID`, and `?from=ID` for a diff.

They are strict, so that a URI has one meaning and a resource has one URI: the scheme and the kind are in lower case, an
id is 16 hex digits, and there is nothing else. A URL of the web is not a URI of this server: reading never fetches.
"""

import re
from typing import Final, Literal, NamedTuple, cast

from tidings._kit.text import quoted
from tidings.server.families import BadAddress, ResourceFamily, ResourceKind

Kind = Literal["packet", "content", "normalized", "screenshot", "raw", "page", "diff"]

_JSON: Final = "application/json"
_SOURCE, _PAGE = "{source_id}", "{page_id}"

FAMILY: Final = ResourceFamily(
    "webfetch",
    ResourceKind(
        "packet",
        _SOURCE,
        "Page, as a packet",
        "One version of a page: its content as markdown, metadata, outline, blocks with places, warnings, hashes.",
        _JSON,
    ),
    ResourceKind("content", _SOURCE, "Content", "The content of one version of a page.", "text/markdown"),
    ResourceKind("normalized", _SOURCE, "Page, without hashes", "One version of a page, without its hashes.", _JSON),
    ResourceKind("screenshot", _SOURCE, "Screenshot", "A picture of the page as it was rendered.", "image/png"),
    ResourceKind(
        "raw", _SOURCE, "Raw bytes", "The bytes as they came, if the caller asked for them or no reader reads them."
    ),
    ResourceKind(
        "page",
        _PAGE,
        "Page, newest version",
        "The newest version of a page, with the versions before it. Subscribe to it to have the page watched and be "
        "notified when its content changes.",
        _JSON,
    ),
    ResourceKind(
        "diff",
        _PAGE,
        "What changed on a page",
        "The difference between the last two versions of a page, or from one of its versions to the newest. Subscribe "
        "to it to be notified when there is a new one.",
        "text/x-diff",
        ("from",),
    ),
)
SCHEME: Final = FAMILY.prefix

_ID: Final = "[0-9a-f]{16}"
_URI: Final = re.compile(rf"{SCHEME}([a-z]+)/({_ID})(?:\?from=({_ID}))?", re.ASCII)
_PREFIX: Final = re.compile(rf"{SCHEME}(?:({'|'.join(FAMILY)})/[0-9a-f]{{0,16}})?\*", re.ASCII)


class WebAddress(NamedTuple):
    """A URI, taken apart."""

    kind: Kind
    id: str
    since: str | None = None  # the source_id that a diff begins with

    @property
    def live(self) -> bool:
        """True if the resource is about a page, which can change and be subscribed to; a version never changes."""
        return FAMILY[self.kind].argument == _PAGE


def parse_address(uri: str) -> WebAddress:
    """Takes a URI apart. Raises `BadAddress` if it is not a URI of this server."""
    found = _URI.fullmatch(uri)
    kind = FAMILY.get(found[1]) if found else None
    if found is None or kind is None or (found[3] and not kind.query):
        if re.match(r"https?:", uri, re.IGNORECASE):
            why = "is not a resource of this server: reading never fetches. Call the tool `fetch` with it."
        else:
            known = ", ".join(map(FAMILY.bare, FAMILY.values()))
            why = f"is not a URI of this server. There are: {known}, where an id is 16 hex digits in lower case."
        raise BadAddress(f"{quoted(uri, 101)} {why}")
    return WebAddress(cast("Kind", kind.name), found[2], found[3])


def address(kind: Kind, id_: str) -> str:
    """Returns the URI of a resource."""
    return FAMILY.uri(kind, id_)


def is_ours(text: str) -> bool:
    """Returns whether a subscription, a URI or a prefix ending in `*`, has the shape of this server's URIs."""
    try:
        return _PREFIX.fullmatch(text) is not None or bool(parse_address(text))
    except BadAddress:
        return False


def is_id(text: str) -> bool:
    """Returns whether this can be the id of a version or a page."""
    return re.fullmatch(_ID, text, re.ASCII) is not None


def source_id_of(text: str) -> str:
    """Returns the id of a version from its source_id or one of its URIs; raises `BadAddress` if it is neither."""
    text = text.strip()
    if is_id(text):
        return text
    if text.startswith(SCHEME) and not (parsed := parse_address(text)).live:
        return parsed.id
    raise BadAddress(
        f"{quoted(text, 101)} is not a source_id. Give the 16 hex digits from the answer of `fetch`, or "
        f"{SCHEME}packet/…"
    )

"""Resource families: the resources of a server that finds them when it is asked, described as a table.

A `ResourceFamily` is a URI scheme and its `ResourceKind`s. From the table come the URI templates, the list entries of
resources that exist once, and the splitting and writing of URIs:

    SCHEME://KIND                   a kind of which there is one resource
    SCHEME://KIND/ARGUMENT?QUERY    the others; the argument is percent-encoded

There are no fragments: a `#` that is not encoded belongs to the argument. Cursors and completions, which such servers
need too, are functions below.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from mcp_types import Annotations, Completion, Resource, ResourceTemplate

from tidings._kit.suggest import did_you_mean
from tidings._kit.text import joined, quoted

MOST_COMPLETIONS: Final = 100  # The protocol allows no more values in one answer.


class BadAddress(ValueError):
    """A text is not the URI of a resource of this server. The message says what is allowed."""


class BadCursor(ValueError):
    """A cursor did not come from a page of this list."""


class ResourceMissing(LookupError):
    """There is no such resource, or no longer. The message says what to do; `wanted` is the name, for suggestions."""

    def __init__(self, reason: str, wanted: str | None = None) -> None:
        super().__init__(reason)
        self.wanted = wanted


class ResourceKind(NamedTuple):
    """One row of the table: resources whose URIs have the same shape."""

    name: str
    argument: str  # The template expression, such as `{+path}`; empty if there is one resource of this kind.
    title: str
    description: str
    mime_type: str | None = None  # None if it differs from resource to resource.
    query: tuple[str, ...] = ()  # The parameters that a URI may have.
    page_size: int | None = None  # The items of a page, if the content is a list that comes in pages.

    @property
    def listed(self) -> dict[str, Any]:
        """The fields that its list entry and its template have in common."""
        return {name: getattr(self, name) for name in ("name", "title", "description", "mime_type")}


class SplitUri(NamedTuple):
    """A URI taken apart."""

    kind: ResourceKind
    argument: str  # Decoded; empty if the URI has none, which the caller judges.
    query: dict[str, str]


class ResourceFamily(dict[str, ResourceKind]):
    """The kinds of resources that share a scheme, by name."""

    def __init__(self, scheme: str, *kinds: ResourceKind) -> None:
        self.prefix: Final = f"{scheme}://"
        super().__init__((kind.name, kind) for kind in kinds)

    def bare(self, kind: ResourceKind) -> str:
        """Returns the template without its query; the URI itself if there is only one resource of this kind."""
        return f"{self.prefix}{kind.name}{'/' if kind.argument else ''}{kind.argument}"

    def covers(self, prefix: str) -> bool:
        """Returns whether resources may begin with a prefix that ends in `*`."""
        start = prefix.removesuffix("*")
        bare = [self.bare(kind).removesuffix(kind.argument) for kind in self.values()]
        return start.startswith(self.prefix) and any(
            each.startswith(start) or (each.endswith("/") and start.startswith(each)) for each in bare
        )

    def shown(self, kind: ResourceKind) -> str:
        """Returns `bare` for a message, without the operators of templates."""
        return self.bare(kind).replace("{+", "{")

    def template(self, kind: ResourceKind) -> str:
        """Returns the URI template with all parameters."""
        return f"{self.bare(kind)}{'{?' + ','.join(kind.query) + '}' if kind.query else ''}"

    def templates(self) -> list[ResourceTemplate]:
        """Returns what `resources/templates/list` answers."""
        return [ResourceTemplate(uri_template=self.template(kind), **kind.listed) for kind in self.values()]

    def singles(self, priority: float) -> list[Resource]:
        """Returns the list entries of the kinds of which there is one resource."""
        singles = [kind for kind in self.values() if not kind.argument]
        return [
            Resource(uri=self.bare(kind), annotations=Annotations(priority=priority), **kind.listed) for kind in singles
        ]

    def uri(self, name: str, argument: str = "", query: Mapping[str, object] | None = None) -> str:
        """Returns the canonical URI of a resource. Parameters without a value (None) are left out."""
        kind = self[name]
        path = f"/{quote(argument, safe='/' if kind.argument.startswith('{+') else '')}" if kind.argument else ""
        asked = "&".join(f"{key}={value}" for key, value in (query or {}).items() if value is not None)
        return f"{self.prefix}{name}{path}{'?' + asked if asked else ''}"

    def split(self, uri: str) -> SplitUri:
        """Takes a URI apart. Upper and lower case are the same in the scheme and the kind. Raises `BadAddress`."""
        scheme, _, rest = uri.partition("://")
        path, _, asked = rest.partition("?")
        name, _, encoded = path.partition("/")
        kind = self.get(name.lower())
        if f"{scheme.lower()}://" != self.prefix or kind is None:
            known = ", ".join(map(self.shown, self.values()))
            near = did_you_mean(name.lower(), self, show=lambda each: self.shown(self[each]))
            raise BadAddress(f"{quoted(uri)} is not a URI of this server.{near} There are: {known}.")
        try:
            argument = unquote(encoded, errors="strict")
            argument.encode()
        except UnicodeError:
            raise BadAddress(f"{quoted(uri)} encodes bytes that are not UTF-8. Percent-encode it as UTF-8.") from None
        if not kind.argument and argument.strip("/"):
            raise BadAddress(
                f"There is nothing below {self.shown(kind)}. Ask for that alone, or for {self.template(kind)}."
            )
        pairs = parse_qsl(asked, keep_blank_values=True)
        query = dict(pairs)
        if len(query) < len(pairs) or not query.keys() <= set(kind.query):
            allowed = f"{joined(kind.query)}, each once" if kind.query else "no parameters"
            raise BadAddress(
                f"The query of {quoted(uri)} is not valid: {self.shown(kind)} takes {allowed}. "
                "Write a '?' that belongs to a name as %3F."
            )
        return SplitUri(kind, argument if kind.argument else "", query)


def cursor_after(key: str) -> str:
    """Returns the cursor of the page after the item with this key: none that stays is repeated or skipped."""
    return urlsafe_b64encode(key.encode()).decode()


def key_before(cursor: str) -> str:
    """Returns the key that `cursor_after` was given. Raises `BadCursor` if it did not return this cursor."""
    try:
        key = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        key = ""
    # Decoding ignores some characters; a cursor that has them did not come from here.
    if not key or cursor_after(key) != cursor:
        raise BadCursor("This cursor did not come from this list. Begin again without a cursor.")
    return key


def completion(values: Iterable[str], total: int | None = None) -> Completion:
    """Returns the answer with these values, each once and as many as the protocol allows; `total` if there are more."""
    found = list(dict.fromkeys(values))
    total = len(found) if total is None else total
    shown = found[:MOST_COMPLETIONS]
    return Completion(values=shown, total=total, has_more=total > len(shown))


def best_first(values: Iterable[str], typed: str, key: Callable[[str], str] = str.casefold) -> list[str]:
    """Returns the values that contain the typed text: first those that begin with it, then those with such a word."""
    wanted = key(typed)
    ranked = [
        (0 if form.startswith(wanted) else 1 if f" {wanted}" in form else 2, value)
        for value in dict.fromkeys(values)
        if wanted in (form := key(value))
    ]
    return [value for _, value in sorted(ranked, key=lambda each: each[0])]

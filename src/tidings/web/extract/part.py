"""A part of a page, for those who watch nothing else of it: `css:.price`, `xpath://h2`, `json:$.items[*].name`,
`regex:Version (.+)`, `heading:Changelog`, and `entries` for the entries of a feed without their texts.

The result has a line for each match, and none if nothing matches. All of it runs in the worker process.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, cast

from tidings._kit import patterns
from tidings._kit.json_path import JsonPath
from tidings.web.extract.html import selectors
from tidings.web.extract.html.tree import Unparsable, etree, parse
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, FeedEntry
from tidings.web.extract.sniff import as_utf8

SITE: Final = "site"  # the pages of a whole site; the fetcher lists them
_MOST: Final = 1_000  # matches
_SECONDS: Final = 2.0  # for a regular expression
_KINDS: Final[dict[str, Callable[[str], object]]] = {  # Each fails for what it does not understand.
    "css": selectors.paths,
    "xpath": etree.XPath,
    "json": JsonPath,
    "regex": patterns.users_pattern,
    "heading": str,
}


class BadPart(ValueError):
    """A part of a page is written in a way that is not understood. The message says why, and what to do."""


def check_part(part: str) -> None:
    """Raises `BadPart` if `part` cannot be used."""
    kind, _, what = part.partition(":")
    if part in (SITE, "entries"):
        return
    if kind not in _KINDS or not what.strip() or len(what) > 500:
        raise BadPart(
            f"{part[:80]!r} names no part of a page. Write css:SELECTOR, xpath:PATH, json:$.PATH, regex:PATTERN, "
            "heading:TEXT, entries (of a feed) or site (its pages)"
        )
    try:
        _KINDS[kind](what)
    except (ValueError, patterns.BadPattern, etree.XPathError) as error:
        raise BadPart(f"{part[:80]!r} cannot be used: {error}") from error


def narrowed(found: Extracted, body: bytes, charset: str | None, options: ExtractOptions) -> Extracted:
    """Returns the part of a page that was read as `found`. Raises `ExtractionFailed` if it cannot be read for that."""
    kind, _, what = options.part.partition(":")
    if options.part == "entries":
        entries = tuple(FeedEntry(each.id, each.title, each.url) for each in found.entries)
        text = "\n".join(f"- {each.title} {each.url}" for each in entries)
        return replace(found, markdown=text, text=text, entries=entries, memory="", facts={}, concealed=())
    match kind:
        case "css" | "xpath":
            lines = list(_matching(kind, what, as_utf8(body, charset), options))
        case "json":
            try:
                page = json.loads(body.decode("utf-8-sig", "replace"))
            except ValueError as error:
                raise ExtractionFailed("broken", "It is not JSON: watch another part of it.") from error
            values = JsonPath(what).find(page, 10 * _MOST)
            lines = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values]
        case "regex":
            pattern = patterns.users_pattern(what)
            try:
                matches = list(pattern.finditer(found.text, timeout=_SECONDS, concurrent=True))
            except TimeoutError as error:
                message = f"The pattern {what!r} takes too long on this page: simplify it."
                raise ExtractionFailed("timeout", message) from error
            lines = [" ".join((each[1] or "" if pattern.groups else each[0]).split()) for each in matches]
        case _:
            lines = _below(what, found.markdown)
    text = "\n".join(line for line in lines[:_MOST] if line)[: options.caps.characters]
    # The title is that of the page: it may count visitors, or tell the time.
    bare = replace(found, title=None, entries=(), memory="", facts={}, concealed=(), empty=None)
    return replace(bare, markdown=text, text=text)


def _matching(kind: str, what: str, body: bytes, options: ExtractOptions) -> Iterator[str]:
    try:
        root = cast("Any", parse(body, options.caps))
    except Unparsable as reason:
        message = f"The page has {reason}, so that a part of it cannot be found: watch all of it."
        raise ExtractionFailed("bomb", message) from reason
    for path in selectors.paths(what) if kind == "css" else [what]:
        try:
            found = root.xpath(path, smart_strings=False)
        except etree.XPathError as error:
            raise ExtractionFailed("broken", f"The path {what!r} cannot be used: {error}.") from error
        for each in cast("list[Any]", found) if isinstance(found, list) else [found]:
            text = "".join(each.itertext()) if hasattr(each, "itertext") else str(each)
            yield " ".join(text.split())


def _below(heading: str, markdown: str) -> list[str]:
    """Returns the lines from the first heading with this text to the next heading that is not below it."""
    level, lines = 0, list[str]()
    for line in markdown.splitlines():
        depth = len(line) - len(line.lstrip("#")) if line.startswith("#") else 0
        if level and 0 < depth <= level:
            break
        if not level and depth and heading.strip().casefold() in line.casefold():
            level = depth
        if level:
            lines.append(line)
    return lines

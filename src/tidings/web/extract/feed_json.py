"""JSON Feed, versions 1 and 1.1. What is labelled so and is none is read as JSON."""

from typing import Any, cast

from tidings.web.extract.charset import as_text
from tidings.web.extract.feed_entries import Feed, as_extracted, line, named, plain
from tidings.web.extract.json_text import read_json
from tidings.web.extract.json_values import NotJson, parsed
from tidings.web.extract.metadata import web_address
from tidings.web.extract.model import Entry, Extracted, ExtractOptions
from tidings.web.extract.moments import moment


def read_json_feed(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """The entries of a feed, the first of them as text."""
    feed = _object(as_text(body, charset))
    items: Any = feed.get("items")
    if not isinstance(items, list):
        return read_json(body, charset, url, options)
    entries = [cast("dict[str, Any]", one) for one in cast("list[Any]", items) if isinstance(one, dict)]
    return as_extracted(
        Feed(
            method="jsonfeed",
            title=_line(feed, "title"),
            author=_author(feed),
            language=_line(feed, "language"),
            description=_line(feed, "description"),
            entries=[_entry(one, url) for one in entries[: options.caps.entries]],
            total=len(entries),
        ),
        options.caps,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        said = parsed(text)
    except NotJson:
        return {}
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def _entry(item: dict[str, Any], base: str) -> Entry:
    title, url = _line(item, "title") or "", _address(item, "url", base) or _address(item, "external_url", base) or ""
    summary = next((said for key in ("summary", "content_html") if (said := plain(_text(item, key)))), "")
    summary = summary or _text(item, "content_text").strip()
    published, updated = moment(_text(item, "date_published")), moment(_text(item, "date_modified"))
    return Entry(
        id=named(_text(item, "id").strip(), url, title, published or updated, summary),
        title=title,
        url=url,
        published_at=published,
        updated_at=updated,
        author=_author(item),
        summary=summary,
    )


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _line(item: dict[str, Any], key: str) -> str | None:
    return " ".join(_text(item, key).split())[:500] or None


def _address(item: dict[str, Any], key: str, base: str) -> str | None:
    said = _text(item, key)
    return web_address(base, said) if said else None


def _author(item: dict[str, Any]) -> str | None:
    """Version 1 has one author, version 1.1 several."""
    people: list[Any] = cast("list[Any]", item.get("authors")) if isinstance(item.get("authors"), list) else []
    named_ = [cast("dict[str, Any]", one) for one in (*people, item.get("author")) if isinstance(one, dict)]
    names = dict.fromkeys(filter(None, (line(_text(one, "name")) for one in named_)))
    return ", ".join(list(names)[:5]) or None

"""Contents and results as pages: JSON, markdown, text; what is binary or was cut is said."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, cast

from tidings.inspector.tui.pages import Joined, JsonPage, MarkdownPage, Page, TextPage, Words
from tidings.inspector.tui.words import one_line, size

MARKDOWN_LIMIT: Final = 200_000
"""A longer markdown text is shown as it is: laying it out would take longer than one waits."""


def json_page(value: Any) -> JsonPage:
    """A JSON value, indented."""
    try:
        return JsonPage(json.dumps(value, indent=2, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return JsonPage("nested too deeply to be shown")


def is_cut(value: Any) -> bool:
    """Whether this stands for something too large to be kept."""
    return isinstance(value, Mapping) and cast("Mapping[str, Any]", value).get("cut") is True


def cut_page(value: Mapping[str, Any]) -> Joined:
    """What was too large to be kept: how large it was, and its beginning."""
    words = f"{size(int(value.get('size') or 0))}: too large to be kept whole. It begins:"
    return Joined([Words([(words, "warn")], []), TextPage(str(value.get("head") or ""))])


def content_page(content: Mapping[str, Any], *, source: bool = False) -> Page:
    """One content of a resource: `{"uri", "mimeType", "text" | "blob"}`. With `source`, as it was sent."""
    if is_cut(content):
        return cut_page(content)
    mime = str(content.get("mimeType") or "")
    if "blob" in content:
        return Words([(f"Binary, {mime or 'of an unknown type'}, {blob_size(content['blob'])}.", "soft")])
    text = str(content.get("text") or "")
    if not text:
        return Words([("Empty.", "soft")])
    return text_page(text, mime, source=source)


def text_page(text: str, mime: str = "", *, source: bool = False) -> Page:
    """A text, shown as what it is."""
    if source:
        return TextPage(text)
    if "markdown" in mime and len(text) <= MARKDOWN_LIMIT:
        return MarkdownPage(text)
    if "json" in mime or text[:1] in "{[":
        try:
            return json_page(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return TextPage(text)


def contents_page(contents: Any, *, source: bool = False) -> Page:
    """All contents of a resource, each under its address if there are several."""
    if is_cut(contents):
        return cut_page(contents)
    if not isinstance(contents, list):
        return json_page(contents)
    items = cast("list[Any]", contents)
    if not items:
        return Words([("The server sent no content.", "soft")])
    pages: list[Page] = []
    for item in items:
        if not isinstance(item, Mapping):
            pages.append(json_page(item))
            continue
        content = cast("Mapping[str, Any]", item)
        if len(items) > 1:
            pages.append(Words([(one_line(content.get("uri") or ""), "b-ink")]))
        pages.append(content_page(content, source=source))
    return pages[0] if len(pages) == 1 else Joined(pages)


def block_page(block: Mapping[str, Any]) -> Page:
    """One content block of a result or a message."""
    match block.get("type"):
        case "text":
            return text_page(str(block.get("text") or ""))
        case "image" | "audio" as kind:
            mime = one_line(block.get("mimeType") or "of an unknown type")
            return Words([(f"{kind.capitalize()}, {mime}, {blob_size(block.get('data') or '')}.", "soft")])
        case "resource" if isinstance(block.get("resource"), Mapping):
            resource = cast("Mapping[str, Any]", block["resource"])
            return Joined([Words([(one_line(resource.get("uri") or ""), "b-ink")]), content_page(resource)])
        case "resource_link":
            return Words([("→ ", "accent"), (one_line(block.get("uri") or ""), "ink")])
        case _:
            return json_page(block)


def text_of(contents: Any) -> str:
    """Contents as one text, to be compared with another."""
    if is_cut(contents):
        return str(cast("Mapping[str, Any]", contents).get("head") or "")
    texts: list[str] = []
    for item in cast("list[Any]", contents) if isinstance(contents, list) else [contents]:
        content = cast("Mapping[str, Any]", item if isinstance(item, Mapping) else {})
        if "blob" in content:
            texts.append(f"binary, {blob_size(content['blob'])}")
        else:
            texts.append(str(content.get("text") or ""))
    return "\n".join(texts)


def blob_size(blob: Any) -> str:
    """How large what was sent in base64 is."""
    try:
        return size(len(base64.b64decode(str(blob), validate=False)))
    except (binascii.Error, ValueError):
        return f"{size(len(str(blob)))} that are no base64"

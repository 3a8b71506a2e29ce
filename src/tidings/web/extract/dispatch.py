"""What a fetched body says: its kind, its text as markdown, and what is known about it.

    extract(body, content_type, url) -> Extracted

Synchronous and without side effects, made to run in a worker process that can be killed (`workers.py`). One reader for
each content type stands in `READERS`; a wrong label is told by the content (`sniff.py`). A reader never calls nothing a
success: `Extracted.empty` says why there is no text.

    html.py        pages; prescan.py, page.py, blocks.py, features.py, kinds.py, choice.py, trees.py, markdown.py, …
                   tags.py what elements are for, attributes.py what they say of themselves
                   hiding.py what a page hides, veils.py where in the markdown that stands
    pdf.py         PDF: pdf_lines.py from its pages to lines, pdf_layout.py from lines to paragraphs and headings
    feeds.py       RSS, Atom, RDF; feed_json.py JSON Feed; feed_entries.py what they become
    json_text.py   JSON and JSON lines, json_values.py without a loss; xml_text.py XML; csv_text.py tables
    text.py        plain text and code; prose.py markdown

    sniff.py       wrong labels; packed.py gzip within; charset.py every encoding made UTF-8; xml_tree.py XML made safe
    moments.py     dates; written.py tables, fences and cuts that are told of; sound.py text that can be written
    workers.py     the processes; process.py one of them; worker.py what runs in it, frames.py what passes between

Text that can be written: without halves of characters, which JSON can name and no encoding can hold.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import Any, TypeVar, cast

from tidings._kit.decompress import Corrupt, OverLimit, gunzip, is_gzip
from tidings.web.extract import sniff
from tidings.web.extract.model import (
    Caps,
    Extracted,
    ExtractionFailed,
    ExtractOptions,
    ExtractWarning,
    FeedEntry,
    PageLink,
    Unsupported,
)

T = TypeVar("T")


def sound(value: T) -> T:
    """The same, each half of a character replaced by the mark for what was lost. As a rule that is `value` itself."""
    if isinstance(value, str):
        return cast("T", _whole(value))
    if isinstance(value, tuple):
        before = cast("tuple[Any, ...]", value)
        after = tuple(sound(one) for one in before)
        same = all(one is other for one, other in zip(before, after, strict=True))
        return cast("T", before if same else after)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: after
            for one in fields(value)
            if (after := sound(before := getattr(value, one.name))) is not before
        }
        return cast("T", replace(value, **changed)) if changed else value
    return value


def _whole(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


__all__ = [
    "READERS",
    "Caps",
    "ExtractOptions",
    "ExtractWarning",
    "Extracted",
    "ExtractionFailed",
    "FeedEntry",
    "PageLink",
    "Unsupported",
    "extract",
]

Reader = Callable[[bytes, str | None, str, ExtractOptions], Extracted]
"""Body, charset or None, URL, options."""

READERS: dict[str, str] = {
    "text/html": "tidings.web.extract.html.read:read_html",
    "application/xhtml+xml": "tidings.web.extract.html.read:read_html",
    "application/pdf": "tidings.web.extract.pdf:read_pdf",
    "application/x-pdf": "tidings.web.extract.pdf:read_pdf",
    "application/rss+xml": "tidings.web.extract.feeds:read_feed",
    "application/atom+xml": "tidings.web.extract.feeds:read_feed",
    "application/rdf+xml": "tidings.web.extract.feeds:read_feed",
    "application/feed+json": "tidings.web.extract.feeds:read_json_feed",
    "application/json": "tidings.web.extract.data:read_json",
    "text/json": "tidings.web.extract.data:read_json",
    "*+json": "tidings.web.extract.data:read_json",
    "application/x-ndjson": "tidings.web.extract.data:read_json_lines",
    "application/ndjson": "tidings.web.extract.data:read_json_lines",
    "application/jsonl": "tidings.web.extract.data:read_json_lines",
    "application/json-lines": "tidings.web.extract.data:read_json_lines",
    "application/json-seq": "tidings.web.extract.data:read_json_lines",
    "application/xml": "tidings.web.extract.xml:read_xml",
    "text/xml": "tidings.web.extract.xml:read_xml",
    "*+xml": "tidings.web.extract.xml:read_xml",
    "text/csv": "tidings.web.extract.data:read_csv",
    "application/csv": "tidings.web.extract.data:read_csv",
    "text/tab-separated-values": "tidings.web.extract.data:read_csv",
    "text/markdown": "tidings.web.extract.text:read_markdown",
    "text/x-markdown": "tidings.web.extract.text:read_markdown",
    "text/plain": "tidings.web.extract.text:read_text",
    "application/javascript": "tidings.web.extract.text:read_code",
    "application/x-javascript": "tidings.web.extract.text:read_code",
    "application/yaml": "tidings.web.extract.text:read_code",
    "application/x-yaml": "tidings.web.extract.text:read_code",
    "application/toml": "tidings.web.extract.text:read_code",
    "application/sql": "tidings.web.extract.text:read_code",
    "application/x-sh": "tidings.web.extract.text:read_code",
    "text/*": "tidings.web.extract.text:read_code",
}
"""Content type to `module:function`, imported when the first body of the type comes. `*+json` and `*+xml` are for the
types that end so, `text/*` for all other text; pictures, sounds and films are never among them."""

_NEVER = ("image/", "audio/", "video/", "font/", "model/")


def extract(body: bytes, content_type: str, url: str, options: ExtractOptions | None = None) -> Extracted:
    """Read `body` as what `content_type` says it is, or as what it is where that is wrong.

    Raises:
        Unsupported: Nothing here reads it: the bytes can only be handed on.
        ExtractionFailed: It is broken, encrypted or a bomb.
    """
    options = options or ExtractOptions()
    said, parameters = _parted(content_type)
    if said.startswith(_NEVER):
        raise Unsupported(said)
    kind, label = said, said
    if is_gzip(body):
        body = _gunzipped(body, options.caps.unpacked)
        label = "" if said in sniff.PACKED else said
    kind = sniff.truly(body, label, url)
    read = _reader(kind)
    found = read(body, _charset(parameters), url, options)
    return sound(_told(found, label, kind))


def _gunzipped(body: bytes, limit: int) -> bytes:
    try:
        return gunzip(body, limit, keep_beginning=True)
    except OverLimit as error:
        message = f"The body decompresses to more than {limit:,} bytes: request it as raw."
        raise ExtractionFailed("bomb", message) from error
    except Corrupt as error:
        message = "The body begins as gzip and cannot be decompressed: request it as raw, or fetch it again."
        raise ExtractionFailed("broken", message) from error


def _reader(kind: str) -> Reader:
    written = READERS.get(kind)
    if written is None and not kind.startswith(_NEVER):
        family, _, rest = kind.partition("/")
        written = READERS.get(f"*+{rest.rpartition('+')[2]}" if "+" in rest else "") or READERS.get(f"{family}/*")
    if written is None:
        raise Unsupported(kind)
    module, _, name = written.partition(":")
    return cast("Reader", getattr(import_module(module), name))


def _told(found: Extracted, said: str, kind: str) -> Extracted:
    """With a word about a label that was wrong. One that says little, or less than is true, is not wrong."""
    if said == kind or said in sniff.GENERIC or said == "text/plain" or {said, kind} <= sniff.MARKUP:
        return found
    if found.entries or READERS.get(said) == READERS.get(kind):
        return found
    warning = ExtractWarning("extraction_fallback", f"it was sent as {said}, and read as the {kind} that it is")
    return replace(found, warnings=(*found.warnings, warning))


def _parted(content_type: str) -> tuple[str, str]:
    """The type alone, as it should be written, and its parameters."""
    kind, _, parameters = content_type.partition(";")
    kind = kind.partition(",")[0].strip().lower()
    return (kind if "/" in kind else ""), parameters


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.partition(",")[0].strip().strip("\"'") or None
    return None

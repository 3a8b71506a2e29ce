"""From bytes to `Extracted`: chooses the reader of a content type.

    extract(body, content_type, url) -> Extracted

Synchronous and without side effects, because it runs in a worker process that can be killed (`pool.py`). `READERS` has
a reader for each content type; a wrong label is corrected by the content (`sniff.py`). Without text the result says
why, in `Extracted.empty`. Text is made encodable: lone surrogates, which JSON can contain, are replaced.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from typing import Any, TypeVar, cast

from tidings._kit.decompress import Corrupt, OverLimit, gunzip, is_gzip
from tidings.web.extract import sniff
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, ExtractWarning, Unsupported

T = TypeVar("T")

Reader = Callable[[bytes, str | None, str, ExtractOptions], Extracted]
"""Takes the body, the charset or None, the URL and the options."""

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
"""Content type to `module:function`, imported for the first body of the type. `*+json` and `*+xml` match the types that
end so, `text/*` all other text."""

_NEVER = ("image/", "audio/", "video/", "font/", "model/")


def extract(body: bytes, content_type: str, url: str, options: ExtractOptions | None = None) -> Extracted:
    """Reads `body` as its content type, or as what it really is if the label is wrong.

    Raises:
        Unsupported: There is no reader for it.
        ExtractionFailed: It is broken, encrypted or a bomb.
    """
    options = options or ExtractOptions()
    label, _, parameters = content_type.partition(";")
    label = label.partition(",")[0].strip().lower()
    label = label if "/" in label else ""
    if label.startswith(_NEVER):
        raise Unsupported(label)
    if is_gzip(body):
        body = _gunzipped(body, options.caps.unpacked)
        label = "" if label in sniff.PACKED else label
    kind = sniff.truly(body, label, url)
    found = _reader(kind)(body, _charset(parameters), url, options)
    return encodable(_with_label_warning(found, label, kind))


def _gunzipped(body: bytes, limit: int) -> bytes:
    try:
        return gunzip(body, limit, keep_beginning=True)
    except OverLimit as error:
        message = f"The body decompresses to more than {limit:,} bytes: ask for it as raw."
        raise ExtractionFailed("bomb", message) from error
    except Corrupt as error:
        message = "The body begins as gzip and cannot be decompressed: ask for it as raw, or fetch it again."
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


def _with_label_warning(found: Extracted, label: str, kind: str) -> Extracted:
    """Adds a warning if the label was wrong. One that is only less precise than the truth is not wrong."""
    if label == kind or label in sniff.GENERIC or label == "text/plain" or {label, kind} <= sniff.MARKUP:
        return found
    if found.entries or READERS.get(label) == READERS.get(kind):
        return found
    warning = ExtractWarning("extraction_fallback", f"it was sent as {label}, and read as the {kind} that it is")
    return replace(found, warnings=(*found.warnings, warning))


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.partition(",")[0].strip().strip("\"'") or None
    return None


def encodable(value: T) -> T:
    """Returns the value with lone surrogates replaced; usually that is `value` itself."""
    if isinstance(value, str):
        return cast("T", _without_surrogates(value))
    if isinstance(value, tuple):
        before = cast("tuple[Any, ...]", value)
        after = tuple(encodable(one) for one in before)
        same = all(one is other for one, other in zip(before, after, strict=True))
        return cast("T", before if same else after)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: after
            for one in fields(value)
            if (after := encodable(before := getattr(value, one.name))) is not before
        }
        return cast("T", replace(value, **changed)) if changed else value
    return value


def _without_surrogates(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

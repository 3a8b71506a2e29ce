"""From bytes to `Extracted`: chooses the reader of a content type.

Synchronous and without side effects, because it runs in a worker process that can be killed (`pool.py`). `READERS` has
a reader for each content type; a wrong label is corrected by the content (`sniff.py`). Without text the result says
why, in `Extracted.empty`.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import cast

from tidings._kit.decompress import Corrupt, OverLimit, gunzip, is_gzip
from tidings.web.extract import sniff
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, ExtractWarning, Unsupported

# Takes the body, the charset or None, the URL and the options.
Reader = Callable[[bytes, str | None, str, ExtractOptions], Extracted]

_TYPES_OF_READERS = {
    "html.read:read_html": "text/html application/xhtml+xml",
    "pdf:read_pdf": "application/pdf application/x-pdf",
    "feeds:read_feed": "application/rss+xml application/atom+xml application/rdf+xml",
    "data:read_json": (
        "application/json text/json *+json application/x-ndjson application/ndjson application/jsonl "
        "application/json-lines"
    ),
    "xml:read_xml": "application/xml text/xml *+xml",
    "data:read_csv": "text/csv application/csv text/tab-separated-values",
    "text:read_markdown": "text/markdown text/x-markdown",
    "text:read_text": "text/plain",
    "text:read_code": (
        "application/javascript application/x-javascript application/yaml application/x-yaml application/toml "
        "application/sql application/x-sh text/*"
    ),
}
# Content type to `module:function` of this package, imported for the first body of the type. `*+json` and `*+xml` match
# the types that end so, `text/*` all other text.
READERS = {kind: reader for reader, kinds in _TYPES_OF_READERS.items() for kind in kinds.split()}

_NEVER = ("image/", "audio/", "video/", "font/", "model/")


def extract(body: bytes, content_type: str, url: str, options: ExtractOptions | None = None) -> Extracted:
    """Reads `body` as what it really is. Raises `Unsupported` if there is no reader, or `ExtractionFailed`."""
    options = options or ExtractOptions()
    label, _, parameters = content_type.partition(";")
    label = label.partition(",")[0].strip().lower()
    label = label if "/" in label else ""
    if label.startswith(_NEVER):
        raise Unsupported(label)
    if is_gzip(body):
        limit = options.caps.unpacked
        try:
            body = gunzip(body, limit, keep_beginning=True)
        except OverLimit as error:
            message = f"The body decompresses to more than {limit:,} bytes: ask for it as raw."
            raise ExtractionFailed("bomb", message) from error
        except Corrupt as error:
            message = "The body begins as gzip and cannot be decompressed: ask for it as raw, or fetch it again."
            raise ExtractionFailed("broken", message) from error
        label = "" if label in sniff.PACKED else label
    kind, charset = sniff.truly(body, label, url), _charset(parameters)
    found = _reader(kind)(body, charset, url, options)
    if options.part:
        from tidings.web.extract.part import narrowed  # noqa: PLC0415 - with lxml, which few readers need

        return narrowed(found, body, charset, options)
    # A label that is only less precise than the truth is not wrong.
    close = label == kind or label in sniff.GENERIC or label == "text/plain" or {label, kind} <= sniff.MARKUP
    if not (close or found.entries or READERS.get(label) == READERS.get(kind)):
        warning = ExtractWarning("extraction_fallback", f"it was sent as {label}, and read as the {kind} that it is")
        found = replace(found, warnings=(*found.warnings, warning))
    return found


def _reader(kind: str) -> Reader:
    written = READERS.get(kind)
    if written is None and not kind.startswith(_NEVER):
        family, _, rest = kind.partition("/")
        written = READERS.get(f"*+{rest.rpartition('+')[2]}" if "+" in rest else "") or READERS.get(f"{family}/*")
    if written is None:
        raise Unsupported(kind)
    module, _, name = written.partition(":")
    return cast("Reader", getattr(import_module(f"tidings.web.extract.{module}"), name))


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.partition(",")[0].strip().strip("\"'") or None
    return None

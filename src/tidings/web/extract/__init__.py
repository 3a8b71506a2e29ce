"""What a fetched body says: its kind, its text as markdown, and what is known about it.

    extract(body, content_type, url) -> Extracted

Synchronous and without side effects, made to run in a worker process that can be killed. One reader for each content
type stands in `READERS`. A reader never calls nothing a success: `Extracted.empty` says why there is no text.
"""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from tidings.web.extract.model import Entry, Extracted, ExtractOptions, Link, Unsupported, Warning_

__all__ = ["READERS", "Entry", "ExtractOptions", "Extracted", "Link", "Unsupported", "Warning_", "extract"]

Reader = Callable[[bytes, str | None, str, ExtractOptions], Extracted]
"""Body, charset or None, URL, options."""

READERS: dict[str, str] = {
    "text/html": "tidings.web.extract.html:read_html",
    "application/xhtml+xml": "tidings.web.extract.html:read_html",
}
"""Content type to `module:function`, imported when the first body of the type comes."""


def extract(body: bytes, content_type: str, url: str, options: ExtractOptions | None = None) -> Extracted:
    """Read `body` as what `content_type` says it is; `Unsupported` for a type that nothing here reads."""
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    reader = READERS.get(kind)
    if reader is None:
        raise Unsupported(kind)
    module, _, name = reader.partition(":")
    read = cast("Reader", getattr(import_module(module), name))
    return read(body, _charset(parameters), url, options or ExtractOptions())


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'") or None
    return None

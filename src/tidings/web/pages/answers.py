"""What is said of an answer that has no text to read: an error, bytes that nothing reads, a page that is gone."""

import hashlib
import html
import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from tidings.web.extract.model import Extracted, Warning_
from tidings.web.net.model import FetchError, Response
from tidings.web.net.retries import retry_after
from tidings.web.packets.injection import disarm

_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_CURES: Final = {
    401: "it wants a login: send an Authorization header with the request",
    402: "it wants to be paid",
    403: "it refuses this client: try another page, or other headers if you may",
    404: "check the address, or look for the page with `map`",
    407: "it wants a login: send the headers that it asks for",
    410: "it is gone for good: look for another page with `map`",
    429: "it is asked too often: ask again later, and less often",
    451: "it may not be shown for legal reasons",
}


class HttpFailed(FetchError):
    """The site answered with an error."""

    kind = "http-status"

    def __init__(self, message: str, *, url: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, url=url)
        self.status = status
        self.headers = headers


def as_raw(body: bytes, content_type: str, url: str) -> Extracted:
    """What can be said of bytes that nothing reads."""
    kind = content_type.partition(";")[0].strip().lower() or "bytes without a content type"
    name = disarm(unquote(PurePosixPath(urlsplit(url).path).name))[:200]
    digest = hashlib.sha256(body).hexdigest()
    # The digest is in the content, so that other bytes are another version.
    text = f"{kind}, {len(body):,} bytes, SHA-256 {digest}"
    warning = Warning_("extraction_fallback", f"Nothing here reads {kind}: its bytes are kept, as `raw`.")
    return Extracted("raw", "raw", markdown=text, text=text, title=name or None, warnings=(warning,))


def failed(response: Response, cures: Mapping[int, str] = _CURES) -> HttpFailed:
    """The error for an answer that is one: what it is, what the page says, what to do."""
    status = response.status
    said = title_of(response.body)
    cure = (
        cures.get(status)
        or _CURES.get(status)
        or ("the site has a problem: try it later" if status >= 500 else "check the request")
    )
    if asked := retry_after(response.headers.get("retry-after"), response.retrieved_at):
        cure = f"{cure} (in {asked:.0f} s, it says)"
    quoted = f', its page is titled "{said}"' if said else ""
    message = f"{response.url} answered {status} {phrase(status)}".rstrip() + f"{quoted}: {cure}."
    return HttpFailed(message, url=response.url, status=status, headers=response.headers)


def title_of(body: bytes) -> str:
    """The title of an HTML page, made harmless and short; empty if there is none."""
    found = _TITLE.search(body[:65_536])
    plain = disarm(html.unescape(found[1].decode("utf-8", "replace"))) if found else ""
    return " ".join(plain.replace('"', "'").split())[:120]


def as_gone(status: int) -> Extracted:
    """What a watched page says when there is none any more."""
    text = f"This page is gone: its address answers with {status} {phrase(status)}."
    return Extracted("gone", "none", markdown=text, text=text, warnings=(Warning_("empty", text),))


def phrase(status: int) -> str:
    """What a status is called; empty if it has no name."""
    return next((known.phrase for known in HTTPStatus if known == status), "")

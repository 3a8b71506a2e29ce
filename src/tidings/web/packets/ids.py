"""What packets and pages are known by, and the one URL that a page is known by."""

import hashlib
from datetime import UTC, datetime

from tidings.web.net.model import BadUrl
from tidings.web.net.urls import Url, parse

_LENGTH = 16
_FRONT = frozenset(("", "/", "/index.html", "/index.htm", "/index.php"))


def content_hash(content: str) -> str:
    """SHA-256 of a content, in hex."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def source_id(canonical_url: str, retrieved_at: datetime, hash_of_content: str) -> str:
    """The id of one version of a page: of its URL, of the day (UTC) and of its content."""
    day = retrieved_at.astimezone(UTC).date().isoformat()
    return _digest(f"{canonical_url}|{day}|{hash_of_content}")


def page_id(canonical_url: str) -> str:
    """The id of a page, whatever it says."""
    return _digest(canonical_url)


def canonical(claimed: str | None, final_url: str, status: int = 200) -> str:
    """The URL that a page is known by: the one it claims, if that may be, or else where it came from.

    A page speaks for its own host alone (`www.` and the scheme aside), so that none can pose as another's. An error
    does not say which page it is; nor does a page that claims to be the front page and is not.
    """
    try:
        final = parse(final_url)
    except BadUrl:
        return final_url
    if claimed is None or not 200 <= status < 300:
        return str(final)
    try:
        said = parse(claimed)
    except BadUrl:
        return str(final)
    mine = _site(said) == _site(final) and (said.target != "/" or final.target.partition("?")[0] in _FRONT)
    return str(said if mine else final)


def _site(url: Url) -> tuple[str, int]:
    port = 443 if (url.scheme, url.port) == ("http", 80) else url.port
    return url.host.removeprefix("www."), port


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]

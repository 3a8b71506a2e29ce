"""Contents of resources: versions, what changed between two, and their bytes, which are never run.

Bytes go out under a policy of their own: a sandbox without scripts, forms, or anything from anywhere, so that the page
of a hostile server is a picture and no more, in a frame or opened by itself.

A page or a drawing of a server's, without what a browser would do for it even in a sandbox.

No policy keeps a browser from connecting to a host that a `link` names in advance (`preconnect`): whoever runs that
host would learn that somebody looks, and when. So there are no `link`s, nor frames that are written out in an
attribute, in which there could be some.
"""

import asyncio
import base64
import binascii
import codecs
import re
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit.bounded_json import as_dict, as_dicts, as_text
from tidings.inspector.http.context import server_of
from tidings.inspector.http.exchange import ApiProblem, endpoint, number_of, text_of

if TYPE_CHECKING:
    from tidings.inspector.view.items import ContentVersion
    from tidings.inspector.view.view import ServerView


PAGES: Final = frozenset({"text/html", "image/svg+xml"})
"""What is shown as a page: a document of its own, with elements in it."""

_LINK: Final = re.compile(rb"<(/?(?:[^\s<>/:]+:)?)(?=link[\s/>])", re.IGNORECASE)
_FRAME: Final = re.compile(rb"src(?=doc)", re.IGNORECASE)
_ENTITY: Final = re.compile(
    rb"""<!ENTITY\s{1,50}[\w.:-]{1,100}\s{1,50}(?:"[^"<&%]{0,1000}"|'[^'<&%]{0,1000}')\s{0,50}>"""
)
"""One that stands for nothing but text."""
_MARKS: Final = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def tamed(data: bytes) -> bytes | None:
    """The page, in UTF-8; None if it cannot be told what would be in it."""
    for mark, coding in _MARKS:
        if data.startswith(mark):  # Goes before what the answer's header says.
            data = data.decode(coding, errors="replace").encode()
    if data.count(b"<!ENTITY") != len(_ENTITY.findall(data)):  # What one stands for may be anything.
        return None
    return _FRAME.sub(rb"\g<0>-", _LINK.sub(rb"<\1x-", data))


_POLICY: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_SHOWN: Final = frozenset({"text/html", "image/svg+xml", "application/pdf"})
"""What a browser may show beside plain text, pictures, sound and film."""
_MEDIA: Final = ("image/", "audio/", "video/")


async def content(request: Request) -> dict[str, Any]:
    """A version of a resource's content: the newest, or the one that is named."""
    view, uri = server_of(request).view, text_of(request, "uri")
    found = _version(view, uri, request, "version")
    return {
        "uri": uri,
        "version": found.seq,
        "at": found.at,
        "hash": found.hash,
        "size": found.size,
        "took": found.took,
        "change": found.change,
        "contents": [_part(each, index) for index, each in enumerate(_parts(found))],
    }


async def versions(request: Request) -> dict[str, Any]:
    """Which versions there are, oldest first."""
    from tidings.inspector.http.rows import version_of  # noqa: PLC0415 - the page is served before this is needed

    kept = server_of(request).view.contents.get(text_of(request, "uri"), ())
    return {"versions": [version_of(each) for each in kept]}


def _version(view: "ServerView", uri: str, request: Request, name: str) -> "ContentVersion":
    kept = view.contents.get(uri)
    if kept is None or not len(kept):
        raise ApiProblem(404, "no-such-content", f"No content of {uri} is kept.", "Subscribe to it, or read it.")
    if name not in request.query_params:
        return kept[-1]
    found = kept.get(number_of(request, name))
    if found is None:
        raise ApiProblem(404, "no-such-version", f"This version of {uri} is not kept any more.", "The oldest go first.")
    return found


def _parts(found: "ContentVersion") -> list[dict[str, Any]]:
    contents = found.contents
    if isinstance(contents, dict):  # Too large to be kept: its head as text.
        return [{"uri": found.uri, "text": contents.get("head"), "cut": True, "size": contents.get("size")}]
    return contents


def _part(part: dict[str, Any], index: int) -> dict[str, Any]:
    """A part of a content. Bytes are not in it: `blob` has them."""
    text, blob = as_text(part.get("text")), as_text(part.get("blob"))
    shown = {key: value for key, value in part.items() if key != "blob"}
    size = len(text.encode(errors="replace")) if text is not None else len(blob or "") * 3 // 4
    return {"size": size, **shown, "index": index, "binary": text is None}


async def diff(request: Request) -> dict[str, Any]:
    """What changed from one version to another."""
    from tidings.inspector.http.rows import difference  # noqa: PLC0415 - likewise

    view, uri = server_of(request).view, text_of(request, "uri")
    old, new = _version(view, uri, request, "from"), _version(view, uri, request, "to")
    return await asyncio.to_thread(difference, old, new)


async def blob(request: Request) -> Response:
    """The bytes of a part of a content, or of what a request returned: to be shown, or as they are (`save`)."""
    part = _blob_part(request)
    if part.get("cut") is True:
        raise ApiProblem(404, "content-cut", "It was too large to be kept whole.", "Read it with a program.")
    kind = (as_text(part.get("mimeType")) or "").partition(";")[0].strip().lower()
    data = _bytes(part)
    if _TYPE.fullmatch(kind) and (kind in _SHOWN or kind.startswith(_MEDIA)):
        shown = kind
    elif "text" in part or kind.startswith("text/"):
        shown = "text/plain"
    else:
        shown = "application/octet-stream"
    save = "save" in request.query_params
    if shown in PAGES and not save:
        page = tamed(data)
        data, shown = (data, "text/plain") if page is None else (page, shown)
    headers = {
        "content-security-policy": _POLICY,
        "content-disposition": "attachment" if save or shown == "application/octet-stream" else "inline",
        "cache-control": "private, max-age=3600, immutable" if "version" in request.query_params else "no-store",
    }
    # Without a charset the sandboxed page could choose one.
    typed = f"{shown}; charset=utf-8" if shown.startswith("text/") or shown == "image/svg+xml" else shown
    return Response(data, headers={**headers, "content-type": typed})


def _blob_part(request: Request) -> dict[str, Any]:
    view, index = server_of(request).view, number_of(request, "index", 0)
    if "request" in request.query_params:
        asked = view.requests.get(text_of(request, "request"))
        parts = [] if asked is None else _returned(asked.result)
    else:
        parts = _parts(_version(view, text_of(request, "uri"), request, "version"))
    if index >= len(parts):
        raise ApiProblem(404, "no-such-part", f"There is no part {index} of it.", "The first is 0.")
    return parts[index]


def _returned(result: Any) -> list[dict[str, Any]]:
    """The parts of what was read, or what a tool returned, in the shape of a resource's."""
    found = as_dict(result)
    parts = as_dicts(found.get("contents"))
    for each in as_dicts(found.get("content")):
        if isinstance(each.get("resource"), dict):
            parts.append(cast("dict[str, Any]", each["resource"]))
        elif "data" in each:
            parts.append({"blob": each["data"], "mimeType": each.get("mimeType")})
        else:
            parts.append(each)
    return parts


def _bytes(part: dict[str, Any]) -> bytes:
    text, coded = as_text(part.get("text")), as_text(part.get("blob"))
    if text is not None:
        return text.encode(errors="replace")
    try:
        return base64.b64decode(coded or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiProblem(
            422, "bad-base64", f"The server's bytes are not base64: {error}.", "Tell its author.", who="the server"
        ) from None


_HERE: Final = "/api/servers/{server}"
ROUTES: Final = [
    Route(f"{_HERE}/content", endpoint(content)),
    Route(f"{_HERE}/versions", endpoint(versions)),
    Route(f"{_HERE}/diff", endpoint(diff)),
    Route(f"{_HERE}/blob", endpoint(blob)),
]

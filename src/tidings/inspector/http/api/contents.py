"""Contents of resources: their versions, differences and bytes. A browser shows the bytes and never runs them.

Bytes are sent under a policy of their own: a sandbox without scripts, forms or requests, so that the page of a hostile
server is a picture and no more, in a frame or by itself. No policy keeps a browser from connecting in advance to a host
that a `link` names (`preconnect`), and that host would learn that somebody looks. So `link`s are disabled in pages, as
are frames whose content is in an attribute, which could contain some.
"""

import asyncio
import base64
import binascii
import codecs
import re
from typing import Any, Final

from starlette.responses import Response

from tidings._kit.bounded_json import as_dict, as_dict_or_none, as_dicts, as_text
from tidings.inspector.http.context import ApiProblem, Asked, Routes
from tidings.inspector.http.rows import fields_of, shown_diff, version_of
from tidings.inspector.view.diffs import change_shown
from tidings.inspector.view.items import ContentVersion

_POLICY: Final = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
_PAGES: Final = frozenset({"text/html", "image/svg+xml"})  # Types that a browser shows as a document.
_SHOWN: Final = _PAGES | {"application/pdf"}  # Types that a browser may show, apart from plain text and media.
_MEDIA: Final = ("image/", "audio/", "video/")

_LINK: Final = re.compile(rb"<(/?(?:[^\s<>/:]+:)?)(?=link[\s/>])", re.IGNORECASE)
_FRAME: Final = re.compile(rb"src(?=doc)", re.IGNORECASE)
# An entity that stands for text without elements.
_ENTITY: Final = re.compile(
    rb"""<!ENTITY\s{1,50}[\w.:-]{1,100}\s{1,50}(?:"[^"<&%]{0,1000}"|'[^'<&%]{0,1000}')\s{0,50}>"""
)

ROUTES: Final = Routes("/api/servers/{server}")


def tamed(data: bytes) -> bytes | None:
    """Returns a page in UTF-8 with its links disabled; None if its content cannot be known."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # For a browser it overrides the header.
        data = data.decode("utf-16", errors="replace").encode()
    if data.count(b"<!ENTITY") != len(_ENTITY.findall(data)):  # Others may stand for anything.
        return None
    return _FRAME.sub(rb"\g<0>-", _LINK.sub(rb"<\1x-", data))


@ROUTES.add("GET", "/content")
async def content(asked: Asked) -> dict[str, Any]:
    """Returns a version of a resource's content: the newest, or the one that is named."""
    found = _version(asked, "version")
    contents = [_part(each, index) for index, each in enumerate(_parts(found))]
    facts = fields_of(found, "uri", "at", "hash", "size", "took", "change")
    return {**facts, "version": found.seq, "contents": contents}


@ROUTES.add("GET", "/versions")
async def versions(asked: Asked) -> dict[str, Any]:
    """Returns the versions that are kept, oldest first."""
    kept = asked.server.view.contents.get(asked.given.text("uri"), ())
    return {"versions": [version_of(each) for each in kept]}


def _version(asked: Asked, name: str) -> ContentVersion:
    uri = asked.given.text("uri")
    kept = asked.server.view.contents.get(uri)
    if kept is None or not len(kept):
        raise ApiProblem(404, "no-such-content", f"There is no content of {uri}.", "Subscribe to it, or read it.")
    if name not in asked.given.values:
        return kept[-1]
    if (found := kept.get(asked.given.index(name))) is None:
        message = f"This version of {uri} is not kept any more."
        raise ApiProblem(404, "no-such-version", message, "The oldest are deleted first.")
    return found


def _parts(found: ContentVersion) -> list[dict[str, Any]]:
    contents = found.contents
    if isinstance(contents, dict):  # Too large to be kept whole: its beginning as text.
        return [{"uri": found.uri, "text": contents.get("head"), "cut": True, "size": contents.get("size")}]
    return contents


def _part(part: dict[str, Any], index: int) -> dict[str, Any]:
    text, blob = as_text(part.get("text")), as_text(part.get("blob"))
    shown = {key: value for key, value in part.items() if key != "blob"}
    size = len(text.encode(errors="replace")) if text is not None else len(blob or "") * 3 // 4
    return {"size": size, **shown, "index": index, "binary": text is None}


@ROUTES.add("GET", "/diff")
async def diff(asked: Asked) -> dict[str, Any]:
    """Returns the differences between two versions."""
    old, new = _version(asked, "from"), _version(asked, "to")
    return await asyncio.to_thread(lambda: shown_diff(change_shown(old, new)))


@ROUTES.add("GET", "/blob")
async def blob(asked: Asked) -> Response:
    """Returns the bytes of a part of a content, or of a result: to be shown, or as they are (`save`)."""
    part = _blob_part(asked)
    if part.get("cut") is True:
        raise ApiProblem(404, "content-cut", "It was too large to be kept whole.", "Read it with another program.")
    kind = (as_text(part.get("mimeType")) or "").partition(";")[0].strip().lower()
    data = _bytes(part)
    if _TYPE.fullmatch(kind) and (kind in _SHOWN or kind.startswith(_MEDIA)):
        shown = kind
    elif "text" in part or kind.startswith("text/"):
        shown = "text/plain"
    else:
        shown = "application/octet-stream"
    save = "save" in asked.given.values
    if shown in _PAGES and not save:
        page = tamed(data)
        data, shown = (data, "text/plain") if page is None else (page, shown)
    headers = {
        "content-security-policy": _POLICY,
        "content-disposition": "attachment" if save or shown == "application/octet-stream" else "inline",
        "cache-control": "private, max-age=3600, immutable" if "version" in asked.given.values else "no-store",
    }
    # Without a charset, the page could choose one.
    typed = f"{shown}; charset=utf-8" if shown.startswith("text/") or shown == "image/svg+xml" else shown
    return Response(data, headers={**headers, "content-type": typed})


def _blob_part(asked: Asked) -> dict[str, Any]:
    index = asked.given.index("index", 0)
    if "request" in asked.given.values:
        request = asked.server.view.requests.get(asked.given.text("request"))
        found = as_dict(None if request is None else request.result)
        parts = as_dicts(found.get("contents"))
        for each in as_dicts(found.get("content")):  # In the shape of a resource's.
            part = {"blob": each["data"], "mimeType": each.get("mimeType")} if "data" in each else each
            resource = as_dict_or_none(each.get("resource"))
            parts.append(part if resource is None else resource)
    else:
        parts = _parts(_version(asked, "version"))
    if index >= len(parts):
        raise ApiProblem(404, "no-such-part", f"It has no part {index}.", "The first is 0.")
    return parts[index]


def _bytes(part: dict[str, Any]) -> bytes:
    if (text := as_text(part.get("text"))) is not None:
        return text.encode(errors="replace")
    try:
        return base64.b64decode(as_text(part.get("blob")) or "", validate=True)
    except (binascii.Error, ValueError) as error:
        message = f"The bytes are not valid base64: {error}."
        raise ApiProblem(422, "bad-base64", message, "Report it to the server's author.", who="the server") from None

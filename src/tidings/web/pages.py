"""From a URL to a version of its page: fetched, rendered if need be, read, normalised.

A page without text carries an `empty` warning that says why. A body that no reader reads becomes a version that
describes it, with its bytes. Versions of different variants (`FetchOptions.variant`) were fetched by another URL, with
other headers, or read in another way: they are not compared, and the validators of one say nothing about the other.
"""

import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http.client import responses as _phrases
from pathlib import PurePosixPath
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from anyio import to_thread

from tidings._kit.backoff import retry_after
from tidings._kit.tasks import Progress
from tidings.web.documents.invisible import disarm
from tidings.web.documents.model import page_id
from tidings.web.documents.normalise import normalise
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.model import Extracted, ExtractOptions, ExtractWarning, FeedEntry, Unsupported
from tidings.web.extract.pool import ExtractionPool
from tidings.web.fetch.fetcher import Fetcher
from tidings.web.fetch.request import BadRequest, FetchError, Request, Response
from tidings.web.page_options import FetchOptions, RenderOptions
from tidings.web.store.model import PageFacts, StoredPage, StoredVersion, Version

NO_STORE: Final = "no_store"  # a key in the options of a stored page: true if its site forbids to answer from a store
AT: Final = "at"  # a key in the options of a stored page: the URL where it was found, if its own URL redirected

_HTML: Final = "text/html; charset=utf-8"
_TITLE = re.compile(rb"<title[^>]{0,200}>([^<]{1,500})", re.IGNORECASE)
_CURES: Final = {
    401: "it requires a login: send an Authorization header with the request",
    402: "it requires payment",
    403: "it refuses this client: try another page, or other headers if you may",
    404: "check the address, or look for the page with `map`",
    407: "it requires a login: send the headers that it asks for",
    410: "it is gone for good: look for another page with `map`",
    429: "it gets too many requests: try again later, and less often",
    451: "it may not be shown for legal reasons",
}
_EMPTY: Final = {
    "login": "The page shows a login instead of its content: send the headers of a session that may see it.",
    "scanned": "Its pages are pictures: there is no text in it.",
    "script-only": "The page has no text of its own, only scripts that would make it: {cure}.",
}


def newest_of(page: StoredPage, variant: str, known: str | None = None) -> Version | None:
    """Returns the newest version of a variant, or the one that is `known` to have the same content."""
    return next((each for each in page.versions if each.variant == variant or each.source_id == known), None)


def speaks_for(page: StoredPage, version: Version) -> bool:
    """Returns whether the facts about the page, above all its validators, are those of this version."""
    return page.options.get("variant") == version.variant and page.content_hash == version.content_hash


@dataclass(frozen=True)
class Validators:
    """The validators of an answer that was the version `source_id`, or the same except for what is ignored."""

    source_id: str
    etag: str | None
    last_modified: str | None
    url: str | None = None  # the URL where it was found, if the page's URL redirected

    @staticmethod
    def of(source_id: str, facts: PageFacts | StoredPage) -> "Validators":
        return Validators(source_id, facts.etag, facts.last_modified, facts.options.get(AT))


class HttpFailed(FetchError, kind="http-status"):
    """The site answered with an error."""

    def __init__(self, message: str, *, url: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, url=url)
        self.status = status
        self.headers = headers


def failed(response: Response, cures: Mapping[int, str] = _CURES) -> HttpFailed:
    """Returns the error for an error answer: the status, the title of its page, and what to do."""
    status = response.status
    otherwise = "the site has a problem: try it later" if status >= 500 else "check the request"
    cure = cures.get(status) or _CURES.get(status) or otherwise
    if asked := retry_after(response.headers.get("retry-after"), response.retrieved_at):
        cure = f"{cure} (in {asked:.0f} s, it asks)"
    found = _TITLE.search(response.body[:65_536])
    plain = disarm(html.unescape(found[1].decode("utf-8", "replace"))) if found else ""
    title = " ".join(plain.replace('"', "'").split())[:120]
    quoted = f', its page is titled "{title}"' if title else ""
    message = f"{response.url} answered {status} {_phrases.get(status, '')}".rstrip() + f"{quoted}: {cure}."
    return HttpFailed(message, url=response.url, status=status, headers=response.headers)


@dataclass(frozen=True)
class RenderedPage:
    """A page when it was complete, or when its time was up. The HTML is UTF-8, the screenshot PNG."""

    html: bytes
    url: str
    screenshot: bytes | None = None
    warnings: tuple[ExtractWarning, ...] = ()
    missing: str = ""  # What was left out of it, and why; said if it shows nothing.


class Renders(Protocol):
    """Renders pages; see `browser.render.Renderer`."""

    async def render(self, url: str, options: RenderOptions, request: Request) -> RenderedPage: ...


class NoRenderer(FetchError, kind="no-renderer"):
    """The caller asked for rendering, which this server does not offer."""


class NotModified(Exception):
    """The page has not changed."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__("not modified")
        self.headers = headers


@dataclass(frozen=True)
class Got:
    """A version of a page that was got."""

    headers: Mapping[str, str]
    entry: StoredVersion
    facts: PageFacts
    empty: str | None = None  # the reason why it has no text, if it has none


@dataclass(frozen=True)
class Fetching:
    """Fetches pages and reads them. Keeps nothing."""

    fetcher: Fetcher
    workers: ExtractionPool
    renderer: Renders | None = None

    async def get(
        self,
        url: str,
        options: FetchOptions,
        progress: Progress | None = None,
        *,
        known: Validators | None = None,
        before: StoredVersion | None = None,
        insist: bool = True,
    ) -> Got:
        """Fetches a page. Raises `FetchError`, `ExtractionFailed` or, with `known`, `NotModified` if it did not change.

        `before` is the last version: what was chosen then is chosen again as long as it is there.
        """
        options = options.model_copy(update={"memory": before.memory if before else ""})
        etag, modified = (known.etag, known.last_modified) if known else (None, None)
        request = replace(options.request(url), etag=etag, last_modified=modified, insist=insist)
        if options.mode == "render":
            return await self._rendered(request, options)
        warnings: list[ExtractWarning] = []
        if options.mode == "auto" and options.render.screenshot:
            try:
                return await self._rendered(request, options)
            except FetchError as error:
                if error.kind != "not-rendered":
                    raise
                warnings.append(ExtractWarning("notice", f"There is no screenshot: {error}"))
        response = await self.fetcher.fetch(request, progress)
        if response.not_modified and known and (etag or modified):
            if response.url == (known.url or response.requested):
                raise NotModified(response.headers)
            # It leads to another page now, which may have the same validators.
            response = await self.fetcher.fetch(replace(request, etag=None, last_modified=None), progress)
        if response.status >= 400 or response.not_modified:
            raise failed(response)
        extracted = await self._read(response.body, response.content_type, response.url, options.reading())
        if extracted.empty and options.mode == "auto" and self.renderer is not None and not options.body:
            try:
                return await self._rendered(request, options)
            except FetchError as error:
                why = f"It could not be rendered: {disarm(str(error))}"
                warnings.append(ExtractWarning("extraction_fallback", why))
        return await self._made(extracted, response, options, warnings)

    async def listed(self, url: str, pages: Sequence[str], options: FetchOptions) -> Got:
        """Returns the version of a site that lists its pages."""
        text = "\n".join(f"- {page}" for page in pages)
        entries = tuple(FeedEntry(page, "", page) for page in pages)
        extracted = Extracted("site", "map", text, text, title=f"Pages of {url}", entries=entries)
        return await self._made(extracted, Response(url, url, 200, {}, b"", "text/plain", datetime.now(UTC)), options)

    async def given(self, body: bytes, content_type: str, url: str, options: FetchOptions) -> Got:
        """Returns the version of bytes that the caller has. Raises `ExtractionFailed` if they could not be read."""
        extracted = await self._read(body, content_type, url, options.reading())
        response = Response(url, url, 200, {}, body, content_type, datetime.now(UTC))
        got = await self._made(extracted, response, options)
        return replace(got, facts=PageFacts(None, options.address(url)))

    async def gone(self, url: str, status: int, options: FetchOptions) -> Got:
        """Returns the version of a page that does not exist any more."""
        text = f"This page is gone: its address answers with {status} {_phrases.get(status, '')}."
        extracted = Extracted("gone", "none", markdown=text, text=text, warnings=(ExtractWarning("empty", text),))
        response = Response(url, url, status, {}, b"", "", datetime.now(UTC))
        got = await self._made(extracted, response, options)
        # The warning about the words of an error page does not hold: these words are not the site's.
        warnings = [each for each in got.entry.packet["warnings"] if each["type"] == "empty"]
        return replace(got, entry=replace(got.entry, packet={**got.entry.packet, "warnings": warnings}))

    async def _read(self, body: bytes, content_type: str, url: str, options: ExtractOptions) -> Extracted:
        if not body:
            return Extracted("empty", "none", empty="empty")
        if self.fetcher.limits.pdf or not body.startswith(b"%PDF-"):
            try:
                return await self.workers.extract(body, content_type, url, options)
            except BadSelector as error:
                raise BadRequest(str(error), url=url) from error
            except Unsupported:
                pass
        kind = content_type.partition(";")[0].strip().lower() or "bytes without a content type"
        name = disarm(unquote(PurePosixPath(urlsplit(url).path).name))[:200]
        # The digest is in the content, so that other bytes are another version.
        text = f"{kind}, {len(body):,} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}"
        warning = ExtractWarning("extraction_fallback", f"No reader reads {kind}: its bytes are kept, as `raw`.")
        return Extracted("raw", "raw", markdown=text, text=text, title=name or None, warnings=(warning,))

    async def _rendered(self, request: Request, options: FetchOptions) -> Got:
        if self.renderer is None:
            raise NoRenderer(
                f"{request.url} cannot be rendered: this server does not offer it. Leave out mode 'render' and the "
                "screenshot, or start the server with --render.",
                url=request.url,
            )
        page = await self.renderer.render(request.url, options.render, request)
        extracted = await self._read(page.html, _HTML, page.url, options.reading())
        missing = [ExtractWarning("notice", page.missing)] if extracted.empty and page.missing else []
        response = Response(page.url, request.url, 200, {}, page.html, _HTML, datetime.now(UTC))
        return await self._made(extracted, response, options, [*page.warnings, *missing], page.screenshot)

    async def _made(
        self,
        extracted: Extracted,
        response: Response,
        options: FetchOptions,
        warnings: Sequence[ExtractWarning] = (),
        screenshot: bytes | None = None,
    ) -> Got:
        warnings = [*extracted.warnings, *warnings]
        if extracted.empty:
            cure = "rendering it gave none either" if self.renderer else "start the server with --render to run them"
            why = _EMPTY.get(extracted.empty, "The page has no text.").format(cure=cure)
            warnings.append(ExtractWarning("empty", why))
        if response.truncated:
            warnings.append(ExtractWarning("truncated", "The page is longer than what was fetched of it."))
        url, address = response.requested, options.address(response.requested)
        extracted = replace(extracted, warnings=tuple(warnings))
        excerpt = options.include_raw_excerpt
        work = partial(normalise, extracted, response, address=address, include_raw_excerpt=excerpt)
        keeps = options.keep_raw or extracted.method == "raw"
        entry = StoredVersion(
            await to_thread.run_sync(work),
            page_id(address),
            raw=response.body if keeps else None,
            raw_type=(response.content_type or "application/octet-stream") if keeps else None,
            screenshot=screenshot,
            entries=extracted.entries,
            memory=extracted.memory,
        )
        kept = options.to_json(url) | ({AT: response.url} if response.url != url else {})
        if "no-store" in response.headers.get("cache-control", "").lower():
            kept[NO_STORE] = True
        facts = PageFacts(url, address, etag=response.etag, last_modified=response.last_modified, options=kept)
        return Got(response.headers, entry, facts, extracted.empty)

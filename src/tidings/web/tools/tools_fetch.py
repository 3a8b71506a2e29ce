"""The tools that get pages: `fetch`, `extract` and `map`.

The docstrings and descriptions are read by language models, which pay for each word.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from tidings.web.pages.options import FetchOptions
from tidings.web.resources.addresses import SCHEME, parse_address
from tidings.web.resources.differences import newest_of
from tidings.web.resources.missing import NotFound
from tidings.web.tools import mapping
from tidings.web.tools.arguments import (
    NO_EXTRACTION,
    NO_FORMAT,
    NO_RENDER,
    BadArgument,
    Extraction,
    Format,
    MaxTokens,
    Mode,
    Render,
    Start,
    Urls,
    decoded,
    extract_options,
    fetch_options,
    over_limits,
)
from tidings.web.tools.pages import Had, show
from tidings.web.tools.progress import Steps
from tidings.web.tools.refusals import NAMED, kind_of, refusals_told, said
from tidings.web.tools.results import Mapped, PagesRead, Problem

if TYPE_CHECKING:
    from tidings.web.server import WebServer

Whole = Annotated[int | None, Field(ge=1)]


class FetchTools:
    """What gets pages from the web, or from whoever has their bytes."""

    def __init__(self, server: "WebServer") -> None:
        self._server = server
        self._settings = server.web_settings

    async def fetch(
        self,
        ctx: Context[Any, Any],
        *,
        urls: Urls,
        max_tokens: MaxTokens = None,
        start: Start = 0,
        mode: Annotated[Mode, Field(description="auto renders only what has no text otherwise")] = "auto",
        headers: Annotated[dict[str, str] | None, Field(description="Sent to the URL's own host only")] = None,
        timeout_ms: Whole = None,
        max_bytes: Whole = None,
        max_redirects: Annotated[int | None, Field(ge=0)] = None,
        user_agent: str | None = None,
        respect_robots: bool | None = None,
        cache_ttl_s: Annotated[float | None, Field(ge=0, description="0 asks the site again")] = None,
        render: Render = NO_RENDER,
        extraction: Extraction = NO_EXTRACTION,
        format: Format = NO_FORMAT,  # noqa: A002 - the name that agents know it by
    ) -> Annotated[CallToolResult, PagesRead]:
        """Get web pages, PDFs, feeds or data as markdown, up to 20 at once. Long ones come in parts, within max_tokens
        for all: go on with `start`. Each can be read again by its source_id, and its page_uri can be subscribed to.
        """
        with refusals_told():
            options = fetch_options(
                self._settings,
                mode=mode,
                headers=headers,
                timeout_ms=timeout_ms,
                max_bytes=max_bytes,
                max_redirects=max_redirects,
                user_agent=user_agent,
                respect_robots=respect_robots,
                cache_ttl_s=cache_ttl_s,
                render=render,
                extraction=extraction,
                format_=format,
            )
            pages, problems = await self._all(ctx, list(dict.fromkeys(urls)), options)
            room = max_tokens or self._settings.answer_tokens
            notes = over_limits(self._settings, timeout_ms=timeout_ms, max_bytes=max_bytes, max_redirects=max_redirects)
            return show(pages, problems, output=format.output, max_tokens=room, start=start, notes=notes)

    async def _all(
        self, ctx: Context[Any, Any], urls: list[str], options: FetchOptions
    ) -> tuple[list[Had], list[Problem]]:
        """The pages, each on its own: one that cannot be had does not keep the others back."""
        had: dict[str, Had] = {}
        problems: dict[str, Problem] = {}
        steps = Steps(ctx, len(urls))

        async def one(url: str) -> None:
            try:
                had[url] = await self._one(url, options, steps)
            except NAMED as error:
                problems[url] = Problem(url=url, kind=kind_of(error), message=said(error))
            await steps.done(url)

        async with anyio.create_task_group() as tasks:
            for url in urls:
                tasks.start_soon(one, url)
        return [had[url] for url in urls if url in had], [problems[url] for url in urls if url in problems]

    async def _one(self, url: str, options: FetchOptions, steps: Steps) -> Had:
        if url.startswith(SCHEME):
            return await self._stored(url)
        fetched = await self._server.library.fetch(url, options, steps.of(url))
        return Had(url, fetched.entry, fetched.from_cache)

    async def _stored(self, uri: str) -> Had:
        asked = parse_address(uri)
        store, source_id = self._server.store, asked.id
        if asked.family.live:
            page = await store.page_of(asked.id)
            source_id = newest_of(page).source_id if page and page.versions else ""
        entry = await store.get(source_id) if source_id else None
        if entry is None:
            raise NotFound(f"{uri} is not here, or no longer: `fetch` the page by its URL.")
        return Had(uri, entry, from_cache=True)

    async def extract(
        self,
        ctx: Context[Any, Any],
        *,
        raw_bytes: Annotated[str, Field(description="Base64")] = "",
        text: Annotated[str, Field(description="Instead of raw_bytes, for HTML and other text")] = "",
        content_type: Annotated[str, Field(description="As in 'text/html' or 'application/pdf'")] = "",
        url: Annotated[str, Field(description="Where it is from; without bytes, it is fetched")] = "",
        canonical_url: str = "",
        max_tokens: MaxTokens = None,
        extraction: Extraction = NO_EXTRACTION,
        format: Format = NO_FORMAT,  # noqa: A002 - the name that agents know it by
    ) -> Annotated[CallToolResult, PagesRead]:
        """Read the bytes of a page, a PDF or a feed that you have, as `fetch` would; a url alone is fetched."""
        with refusals_told():
            options = FetchOptions(
                extraction=extract_options(extraction),
                keep_raw=format.output == "raw",
                include_raw_excerpt=format.include_raw_excerpt,
                respect_robots=self._settings.robots != "ignore",
                cache_ttl=self._settings.cache_ttl,
            )
            room = max_tokens or self._settings.answer_tokens
            if raw_bytes and text:
                raise BadArgument("Give raw_bytes or text, not both.")
            if not raw_bytes and not text:
                if not url:
                    raise BadArgument("There is nothing to read: give raw_bytes, text or url.")
                steps = Steps(ctx, 1)
                fetched = await self._server.library.fetch(url, options, steps.of(url))
                await steps.done(url)
                had = Had(url, fetched.entry, fetched.from_cache)
            else:
                body = text.encode(errors="replace") if text else decoded(raw_bytes, self._settings.max_bytes)
                plain = content_type.partition(";")[0].strip() or "text/html"
                kind = f"{plain}; charset=utf-8" if text else content_type
                given = canonical_url or url or f"https://given.invalid/{sha256(body).hexdigest()[:16]}"
                fetched = await self._server.library.extract(body, kind, given, options)
                had = Had(given, fetched.entry)
            return show([had], [], output=format.output, max_tokens=room)

    async def map(
        self,
        *,
        url: str,
        limit: Annotated[int, Field(ge=1, le=5000)] = 100,
        search: Annotated[str, Field(description="Words in the URL or title")] = "",
        max_tokens: MaxTokens = None,
    ) -> Annotated[CallToolResult, Mapped]:
        """List the pages of a site: from its sitemaps, and from the links of the page at `url`."""
        with refusals_told():
            found = await self._server.library.map(url, limit=mapping.MOST if search.strip() else limit)
            return mapping.show(found, search, limit, max_tokens or self._settings.answer_tokens)

"""The tools that watch pages, for clients that cannot subscribe: `watch` and `unwatch`.

The docstrings and descriptions are read by language models, which pay for each word.
"""

from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import Field

from tidings.web.documents.injection import disarm
from tidings.web.page_options import FetchOptions
from tidings.web.resources.addresses import SCHEME, address, is_id
from tidings.web.resources.differences import newest_of
from tidings.web.resources.reading import found_page, moment, page_meant
from tidings.web.store.model import StoredPage, StoredWatch
from tidings.web.tools.arguments import NO_IGNORE, BadArgument, IgnoreArgument
from tidings.web.tools.calls import Steps
from tidings.web.tools.results import Unwatched, WatchedPage, WatchResult, answer, refusals_told

if TYPE_CHECKING:
    from tidings.web.server import WebServer

_MOST = 200

Which = Annotated[str, Field(description="URL, page_id or webfetch:// URI")]


class WatchTools:
    """What watches pages on behalf of agents."""

    def __init__(self, server: "WebServer") -> None:
        self._server = server
        self._settings = server.web_settings

    async def watch(
        self,
        ctx: Context[Any, Any],
        *,
        page: Annotated[str, Field(description="URL, page_id or webfetch:// URI; lists all watched if left out")] = "",
        interval_s: Annotated[float | None, Field(gt=0, description="Adapts to the page if left out")] = None,
        ignore: IgnoreArgument = NO_IGNORE,
    ) -> Annotated[CallToolResult, WatchResult]:
        """Watch a page until `unwatch`: changes are stored, and `diff` shows them. To be woken instead, subscribe to
        its page_uri or diff_uri.
        """
        with refusals_told():
            if not page.strip():
                return _listed(await self._server.store.watches(explicit=True))
            self._check(interval_s)
            rules = _rules(ignore)
            known = await self._known(ctx, page.strip())
            watch = await self._server.watcher.begin(known.page_id, ignore=rules, every=interval_s)
            said = _watched(watch)
            if note := await self._without_text(known):
                said["note"] = note
            text = f"Watching {said['url']} (page_id {said['page_id']})."
            then = f"Look at `diff` later, or subscribe to {said['diff_uri']}."
            return answer(" ".join(filter(None, [text, note, then])), WatchResult(watched=[said]))

    async def unwatch(self, *, page: Which) -> Annotated[CallToolResult, Unwatched]:
        """End what `watch` began. Subscriptions go on."""
        with refusals_told():
            known = await page_meant(self._server.store, page)
            still = await self._server.watcher.end(known.page_id)
            after = "somebody is subscribed to it, though" if still else "nobody watches it now"
            said = Unwatched(page_id=known.page_id, url=known.canonical_url, still_watched=still)
            return answer(f"Not watching {known.canonical_url} any more: {after}.", said)

    def _check(self, interval: float | None) -> None:
        least, most = self._settings.watch_min, self._settings.watch_max
        if interval is not None and not least <= interval <= most:
            raise BadArgument(f"interval_s can be {least:g} to {most:g} here: give that, or leave it out.")

    async def _known(self, ctx: Context[Any, Any], page: str) -> StoredPage:
        """The page; fetched first, if it is a URL that was never fetched."""
        store = self._server.store
        name = page
        if not page.startswith(SCHEME) and not is_id(page) and await found_page(store, page) is None:
            steps = Steps(ctx, 1)
            options = FetchOptions(respect_robots=self._settings.robots != "ignore")
            fetched = await self._server.library.fetch(page, options, steps.of(page))
            await steps.done(page)
            name = fetched.page_id
        return await page_meant(store, name)

    async def _without_text(self, page: StoredPage) -> str:
        """That there is nothing to watch on a page, and why; empty if there is."""
        entry = await self._server.store.get(newest_of(page).source_id) if page.versions else None
        why = [each["message"] for each in entry.packet["warnings"] if each["type"] == "empty"] if entry else []
        return f"There is no text on it to watch so far: {disarm(why[0])}" if why else ""


def _rules(ignore: IgnoreArgument) -> Any:
    from tidings.web import ignore as ignore_module  # noqa: PLC0415 - it brings a parser of HTML, which a start does without

    try:
        return ignore_module.IgnoreRules(tuple(ignore.selectors), tuple(ignore.patterns), tuple(ignore.ready))
    except ignore_module.BadRule as error:
        raise BadArgument(f"ignore: {error}.") from error


def _listed(watches: list[StoredWatch]) -> CallToolResult:
    said = WatchResult(watched=[_watched(watch) for watch in watches[:_MOST]])
    lines = [
        f"- {each['url']} (page_id {each['page_id']}), next look {each.get('next_look', '?')}"
        for each in said["watched"]
    ]
    if len(watches) > _MOST:
        said["left_out"] = len(watches) - _MOST
        lines.append(f"[{len(watches) - _MOST:,} more are watched.]")
    return answer("\n".join(lines) or "No page is watched by `watch`.", said)


def _watched(watch: StoredWatch) -> WatchedPage:
    said = WatchedPage(
        page_id=watch.page_id,
        url=watch.canonical_url,
        page_uri=address("page", watch.page_id),
        diff_uri=address("diff", watch.page_id),
        next_look=moment(watch.next_at),
    )
    if watch.failures:
        said["failures"] = watch.failures
        if problem := watch.state.get("problem"):
            said["problem"] = disarm(str(problem))[:300]
    return said

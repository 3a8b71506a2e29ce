"""The tools that watch pages, for clients that cannot subscribe: `watch` and `unwatch`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult
from pydantic import BaseModel, BeforeValidator, Field
from typing_extensions import TypedDict

from tidings._kit.text import iso
from tidings.web.documents.invisible import disarm
from tidings.web.ignore import USUAL, BadRule, IgnoreRules
from tidings.web.page_options import STRICT, FetchOptions, kept_openly
from tidings.web.resources import SCHEME, address, is_id, known_page, meant
from tidings.web.store.model import StoredPage, StoredVersion, StoredWatch
from tidings.web.tools.results import BadArgument, Steps, answer, as_list
from tidings.web.watch.state import BadCondition, check_condition
from tidings.web.wiring import WebWiring

_MOST: Final = 200


class IgnoreArgument(BaseModel):
    """Differences that are not a change."""

    model_config = STRICT

    selectors: Annotated[list[str], Field(description="CSS selectors")] = []
    patterns: Annotated[list[str], Field(description="Regular expressions")] = []
    ready: Annotated[
        list[Literal["dates", "counters", "relative-times", "stamps", "link-tokens", "tokens"]],
        BeforeValidator(as_list),
        Field(description="Things that differ each time"),
    ] = list(USUAL)


class WatchedPage(TypedDict):
    """A page that is watched."""

    page_id: str
    url: str
    page_uri: str
    diff_uri: str
    next_look: NotRequired[str]
    failures: NotRequired[int]
    problem: NotRequired[str]
    note: NotRequired[str]


class WatchResult(TypedDict):
    """The pages that are watched now."""

    watched: list[WatchedPage]
    left_out: NotRequired[int]


class Unwatched(TypedDict):
    """A page whose watch by this tool has ended."""

    page_id: str
    url: str
    still_watched: bool


NO_IGNORE: Final = IgnoreArgument()


@dataclass(frozen=True)
class WatchTools:
    """The tools `watch` and `unwatch`."""

    _parts: Callable[[], WebWiring]

    async def watch(
        self,
        ctx: Context[Any, Any],
        *,
        page: Annotated[str, Field(description="URL, page_id or webfetch:// URI; lists all watched if left out")] = "",
        interval_s: Annotated[float | None, Field(gt=0, description="Adapts to the page if left out")] = None,
        part: Annotated[
            str,
            Field(description="css:…, xpath:…, json:$.…, regex:… or heading:…; entries of a feed; site: its new pages"),
        ] = "",
        when: Annotated[str, Field(description="As in 'price below 50', 'contains X', 'disappears'")] = "",
        headers: Annotated[dict[str, str], Field(description="Kept; secrets as $NAME, which the operator allows")] = {},  # noqa: B006 - never changed
        body: Annotated[str, Field(description="For a POST request, as JSON")] = "",
        ignore: IgnoreArgument = NO_IGNORE,
    ) -> Annotated[CallToolResult, WatchResult]:
        """Watch a page until `unwatch`: changes are stored, and `diff` shows them. To be woken instead, subscribe to
        its page_uri or diff_uri.
        """
        parts = self._parts()
        if not page.strip():
            return _listed(await parts.store.watches(explicit=True))
        least, most = parts.settings.watch_min, parts.settings.watch_max
        if interval_s is not None and not least <= interval_s <= most:
            raise BadArgument(f"interval_s can be {least:g} to {most:g} here. Give that, or leave it out.")
        try:
            rules = IgnoreRules(tuple(ignore.selectors), tuple(ignore.patterns), tuple(ignore.ready))
        except BadRule as error:
            raise BadArgument(f"ignore: {error}.") from error
        _check(part, when)
        if name := kept_openly(headers):
            raise BadArgument(
                f"headers: the value of {name[:80]!r} would be stored. Put it into the server's environment, and "
                "write $NAME; the operator allows it with --secrets NAME@DOMAIN."
            )
        robots = parts.settings.robots != "ignore"
        options = FetchOptions(respect_robots=robots, part=part, login=headers, body=body)
        known, entry = await self._known(ctx, page.strip(), options)
        watch = await parts.watcher.begin(known.page_id, ignore=rules, every=interval_s, when=when)
        watched = _watched(watch)
        why = [each["message"] for each in entry.packet["warnings"] if each["type"] == "empty"] if entry else []
        note = f"There is no text on it to watch so far: {disarm(why[0])}" if why else ""
        if when and watch.options.get("held"):
            note = f"{note} The condition holds already: you are notified when it holds again.".strip()
        if note:
            watched["note"] = note
        text = f"Watching {watched['url']} (page_id {watched['page_id']})."
        then = f"Look at `diff` later, or subscribe to {watched['diff_uri']}."
        return answer(" ".join(filter(None, [text, note, then])), WatchResult(watched=[watched]))

    async def unwatch(
        self, *, page: Annotated[str, Field(description="URL, page_id or webfetch:// URI")]
    ) -> Annotated[CallToolResult, Unwatched]:
        """End what `watch` began. Subscriptions go on."""
        known = known_page((await meant(self._parts().store, page))[0], page)
        if not known.watched:
            others = [each.address for each in await self._parts().store.watches() if each.url == known.url]
            if others:
                raise BadArgument(f"Only parts of it are watched: {', '.join(others[:10])}. Give one of these.")
        still = await self._parts().watcher.end(known.page_id)
        after = "a client is still subscribed to it" if still else "it is not watched now"
        data = Unwatched(page_id=known.page_id, url=known.address, still_watched=still)
        return answer(f"Not watching {known.address} any more: {after}.", data)

    async def _known(
        self, ctx: Context[Any, Any], page: str, options: FetchOptions
    ) -> tuple[StoredPage, StoredVersion | None]:
        """Returns the page, or the part of it, fetched first if it is a URL that was never fetched; and its version."""
        parts, name = self._parts(), page
        if not page.startswith(SCHEME) and not is_id(page):
            special = options.part or options.login or options.body
            known, _ = (None, None) if special else await meant(parts.store, page)
            if known is None or (known.address != known.url and " [" not in page):
                async with Steps(ctx, 1).step(page) as report:
                    name = (await parts.library.fetch(page, options, report)).entry.page_id
        elif options.part or options.login or options.body:
            raise BadArgument("part, headers and body need the URL of the page.")
        found, entry = await meant(parts.store, name)
        return known_page(found, name), entry


def _check(part: str, when: str) -> None:
    from tidings.web.extract.part import BadPart, check_part  # noqa: PLC0415 - with lxml, which the server does not need

    try:
        if part:
            check_part(part)
        if when:
            check_condition(when)
    except (BadPart, BadCondition) as error:
        raise BadArgument(f"{error}.") from error


def _listed(watches: list[StoredWatch]) -> CallToolResult:
    data = WatchResult(watched=[_watched(watch) for watch in watches[:_MOST]])
    lines = [
        f"- {each['url']} (page_id {each['page_id']}), next look {each.get('next_look', '?')}"
        for each in data["watched"]
    ]
    if len(watches) > _MOST:
        data["left_out"] = len(watches) - _MOST
        lines.append(f"[{len(watches) - _MOST:,} more are watched.]")
    return answer("\n".join(lines) or "No page is watched by `watch`.", data)


def _watched(watch: StoredWatch) -> WatchedPage:
    watched = WatchedPage(
        page_id=watch.page_id,
        url=watch.address,
        page_uri=address("page", watch.page_id),
        diff_uri=address("diff", watch.page_id),
        next_look=iso(watch.next_at),
    )
    if watch.failures:
        watched["failures"] = watch.failures
        if problem := watch.state.get("problem"):
            watched["problem"] = disarm(str(problem))[:300]
    return watched

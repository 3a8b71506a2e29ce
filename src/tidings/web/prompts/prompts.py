"""The prompts of the web server: what somebody may ask for at the push of a button.

Each brings what the store has of the pages it is about. A method's docstring is what clients are told of it.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ContentBlock
from pydantic import Field

from tidings.web.prompts.briefs import CARE, ROOM, BadBrief, about, all_known, brought, known, to_fetch, told
from tidings.web.resources.addresses import BadAddress, address
from tidings.web.resources.differences import difference
from tidings.web.resources.missing import NotFound
from tidings.web.store.model import StoreError
from tidings.web.store.store import Store
from tidings.web.tools.fitting import fit

if TYPE_CHECKING:
    from tidings.web.server import WebServer

Content = list[ContentBlock]

Url = Annotated[str, Field(description="The URL of a page.")]
Urls = Annotated[str, Field(description="URLs of pages, parted by spaces.")]

_SINCE = "A source_id of the page to compare from; the version before the newest if left out."


def register(server: "WebServer") -> None:
    """Add the prompts to a server."""
    prompts = Prompts(lambda: server.store)
    for title, function in (
        ("Summarise a page", prompts.summarise_page),
        ("Compare pages", prompts.compare_pages),
        ("Extract facts", prompts.extract_facts),
        ("Research a question", prompts.research),
        ("Tell what changed", prompts.what_changed),
        ("Watch a page", prompts.watch_page),
    ):
        server.prompt(title=title, description=" ".join((function.__doc__ or "").split()))(function)


class Prompts:
    """What can be asked for."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def summarise_page(
        self,
        url: Url,
        focus: Annotated[str, Field(description="What it should be about; everything if left out.")] = "",
    ) -> Content:
        """Summarise a page, with quotes and what it leaves open."""

        async def brief(store: Store) -> Content:
            page = await known(store, url)
            wish = f"Pay attention to this above all: {focus.strip()}" if focus.strip() else ""
            form = (
                "In this order: what kind of page it is, who wrote it and when; the main point in one sentence; the "
                "most important points, each with a quote; numbers and dates as the page has them; what it leaves "
                "open or claims without showing."
            )
            return [told(f"Summarise {page.url}.", wish, to_fetch([page]), form, CARE, about([page])), *brought([page])]

        return await self._write(brief)

    async def compare_pages(
        self,
        urls: Urls,
        aspects: Annotated[str, Field(description="What to compare; the model chooses if left out.")] = "",
    ) -> Content:
        """Compare pages: where they agree, where they contradict each other, and what only one of them says."""

        async def brief(store: Store) -> Content:
            pages = await all_known(store, urls)
            if len(pages) < 2:
                raise BadBrief("Give two URLs or more, parted by spaces: one page alone cannot be compared.")
            names = "\n".join(f"- {page.url}" for page in pages)
            what = f"Compare them in: {aspects.strip()}." if aspects.strip() else "Choose the aspects that matter."
            form = (
                "A table first, a row for each aspect and a column for each page, with the pages' own words where "
                "they are short. Then: where they contradict each other, with both quotes; what only one of them "
                "says; which is newer. Leave a cell empty rather than guess."
            )
            asked = f"Compare these pages:\n{names}"
            return [told(asked, what, to_fetch(pages), form, CARE, about(pages)), *brought(pages)]

        return await self._write(brief)

    async def extract_facts(
        self,
        urls: Urls,
        facts: Annotated[str, Field(description="Which: 'price, weight, delivery', or 'all dates with events'.")],
    ) -> Content:
        """Extract facts from pages as a table, each with where it stands."""

        async def brief(store: Store) -> Content:
            pages = await all_known(store, urls)
            if not facts.strip():
                raise BadBrief("Which facts? Say what to look for, as in 'price, weight, delivery'.")
            names = "\n".join(f"- {page.url}" for page in pages)
            form = (
                "Answer with a table: fact, value as the page writes it, unit or currency, exact quote, URL. One row "
                "for each value found. Values that are missing get a row that says so; convert and add up nothing. "
                "Read tables to their end: where an answer says that something is left, go on with `start`."
            )
            asked = f"Extract these facts: {facts.strip()}\nfrom:\n{names}"
            return [told(asked, to_fetch(pages), form, CARE, about(pages)), *brought(pages)]

        return await self._write(brief)

    async def research(
        self,
        question: Annotated[str, Field(description="What you want to know.")],
        urls: Annotated[str, Field(description="Where to begin: URLs, parted by spaces. May be left out.")] = "",
    ) -> Content:
        """Answer a question from several pages, following links, with a source for each statement."""

        async def brief(store: Store) -> Content:
            if not question.strip():
                raise BadBrief("What is the question?")
            pages = await all_known(store, urls) if urls.strip() else []
            begin = "" if pages else "No page is given: begin with those that you know to be good sources for this."
            way = (
                "Go on from there: `map` lists the pages of a site, `fetch` takes up to 20 URLs at once, `compact` "
                "with mode 'question_focused' shortens a long page to what bears on the question. Prefer primary and "
                "dated sources; look for one that disagrees. Stop when two independent sources agree or nothing new "
                "comes."
            )
            form = (
                "Answer first, in a few sentences, with how sure you are. Then the evidence: each statement with a "
                "quote, its URL and date. Then what is disputed, and what you could not find out."
            )
            asked = f"Question: {question.strip()}"
            return [told(asked, begin, to_fetch(pages), way, form, CARE, about(pages)), *brought(pages)]

        return await self._write(brief)

    async def what_changed(self, url: Url, since: Annotated[str, Field(description=_SINCE)] = "") -> Content:
        """Tell what changed on a page, and what of it matters."""

        async def brief(store: Store) -> Content:
            page = await known(store, url)
            form = (
                "Say first whether anything changed that matters, in one sentence. Then each change: what it was, "
                "what it is, what follows from it. Name changes of wording and layout together, in one line."
            )
            if page.page is None:
                how = "It was not fetched here before, so there is nothing to compare with: fetch it now and watch it."
                return [told(f"What changed on {page.url}?", how, CARE)]
            found = await difference(store, page.page, since.strip() or None)
            look = (
                "To see whether there is more: `fetch` it with cache_ttl_s=0, and then `diff` with "
                f"page={page.page.page_id!r}."
            )
            seen = fit(found.text, ROOM)
            more = (
                f"\n\n[{seen.left:,} more characters: read {address('diff', page.page.page_id)}.]" if seen.left else ""
            )
            text = f"What is known so far:\n\n{seen.text}{more}"
            return [told(f"What changed on {page.url}?", look, form, CARE, text)]

        return await self._write(brief)

    async def watch_page(
        self,
        url: Url,
        matters: Annotated[str, Field(description="Which changes matter; all if left out.")] = "",
    ) -> Content:
        """Watch a page, and report when something changes that matters."""

        async def brief(store: Store) -> Content:
            page = await known(store, url)
            where = (
                f"Subscribe to {address('diff', page.page.page_id)} if you can subscribe to resources"
                if page.page
                else "Fetch it, and subscribe to its diff_uri if you can subscribe to resources"
            )
            how = (
                f"{where}: you are told when it changes, and reading it says what did. If you cannot subscribe, call "
                "`watch` and look at `diff` now and then."
            )
            rules = (
                "If what changes each time does not matter (a date, a counter, an advertisement), call `watch` with "
                "`ignore`: ready patterns, CSS selectors or regular expressions."
            )
            wish = f"What matters is: {matters.strip()}" if matters.strip() else "Every change of the content matters."
            form = "When it changes, say in one or two sentences what did, with the words before and after."
            return [told(f"Watch {page.url} for me.", wish, how, rules, form, CARE)]

        return await self._write(brief)

    async def _write(self, brief: Callable[[Store], Awaitable[Content]]) -> Content:
        try:
            return await brief(self._store())
        except (BadBrief, BadAddress, NotFound, StoreError) as error:
            # The words are for whoever chose the arguments. Of other errors the SDK tells them nothing.
            raise MCPError(INVALID_PARAMS, str(error)) from error

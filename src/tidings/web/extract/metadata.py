"""Title, author, dates, language, site and address of a page, from what it says of itself.

Trusted in this order: JSON-LD of the thing the page is about, OpenGraph and other meta tags, the elements on the page.
Dates are returned as ISO 8601 where they can be read as such, and left out where not: a wrong date is worse than none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import urljoin, urlsplit

from tidings.web.extract.page import Page

_ABOUT_WRITTEN = (
    "Article NewsArticle BlogPosting TechArticle Report ScholarlyArticle Product DiscussionForumPosting QAPage "
    "Question Recipe Event JobPosting Course Book Movie SoftwareApplication VideoObject SocialMediaPosting "
    "LiveBlogPosting ReportageNewsArticle OpinionNewsArticle AnalysisNewsArticle WebPage ItemPage AboutPage "
    "FAQPage CollectionPage Service"
)
_ABOUT: Final = frozenset(_ABOUT_WRITTEN.split())
_PUBLISHED: Final = (
    "article:published_time", "datepublished", "date", "dc.date", "dcterms.created", "dc.date.issued", "pubdate",
    "publish_date", "parsely-pub-date", "sailthru.date", "citation_publication_date", "og:published_time",
)  # fmt: skip
_MODIFIED: Final = (
    "article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "last-modified",
)  # fmt: skip
_AUTHOR: Final = ("author", "article:author", "dc.creator", "parsely-author", "sailthru.author", "citation_author")
_DAY: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_DASHES: Final = "|·•»\N{EN DASH}\N{EM DASH}-"
_SEPARATOR: Final = re.compile(rf"\s+(?:[{_DASHES}]|::)\s+")
_LONGEST: Final = 500
_PLAIN_ADDRESS: Final = re.compile(
    r"https?://[\w.-]+(?::\d+)?(?:/[\w./~+,@!$*()%&=-]*)?(?:\?[\w./~+,@!$*()%&=-]+)?(?:#[\w.-]+)?", re.ASCII
)
"""Addresses that nothing has to be made of, as nearly all links to elsewhere are."""


@dataclass(frozen=True)
class Metadata:
    """What was found; None where the page does not say."""

    title: str | None
    author: str | None
    published_at: str | None
    modified_at: str | None
    language: str | None
    site_name: str | None
    description: str | None
    canonical_url: str | None


def read_metadata(page: Page) -> Metadata:
    """Everything at once."""
    about = [one for one in page.data if _is_about(one)]
    metas = page.metas
    site = _first(metas.get("og:site_name"), metas.get("application-name"), _publisher(page.data))
    return Metadata(
        title=_title(page, about, site),
        author=_author(page, about),
        published_at=_date((one.get("datePublished") for one in about), metas, _PUBLISHED) or _time(page),
        modified_at=_date((one.get("dateModified") for one in about), metas, _MODIFIED),
        language=_language(page),
        site_name=site,
        description=_first(metas.get("description"), metas.get("og:description")),
        canonical_url=_canonical(page),
    )


def _is_about(one: dict[str, Any]) -> bool:
    kinds = one.get("@type")
    return any(kind in _ABOUT for kind in (cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]))


def _clean(value: object) -> str | None:
    text = " ".join(value.split())[:_LONGEST] if isinstance(value, str) else ""
    return text or None


def _first(*values: object) -> str | None:
    return next((text for value in values if (text := _clean(value))), None)


def _title(page: Page, about: list[dict[str, Any]], site: str | None) -> str | None:
    """The headline. A page's `title` often has the site's name behind it, which is taken off where it is known."""
    said = _first(*(one.get("headline") for one in about), page.metas.get("og:title"), page.metas.get("twitter:title"))
    title = said or _clean(page.title)
    if title is None:
        heading = next((block.text for block in page.blocks.blocks if block.node.tag == "h1"), None)
        return _clean(heading)
    parts = _SEPARATOR.split(title)
    if site and len(parts) > 1:
        if parts[-1].strip().lower() == site.lower():
            return title[: title.rindex(parts[-1])].rstrip(f" :{_DASHES}")
        if parts[0].strip().lower() == site.lower():
            return title[len(parts[0]) :].lstrip(f" :{_DASHES}")
    return title


def _author(page: Page, about: list[dict[str, Any]]) -> str | None:
    for one in about:
        names = list(dict.fromkeys(_people(one.get("author"))))
        if names:
            return ", ".join(names[:5])
    for key in _AUTHOR:
        value = _clean(page.metas.get(key))
        if value and not urlsplit(value).scheme:
            return value
    for element, said in page.blocks.noted["rel"]:
        if said == "author" and (name := _clean("".join(element.itertext()))):
            return name
    return None


def _people(value: object) -> Iterable[str]:
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _people(one)
    elif isinstance(value, dict):
        yield from _people(cast("dict[str, object]", value).get("name"))
    elif name := _clean(value):
        yield name


def _publisher(data: tuple[dict[str, Any], ...]) -> str | None:
    for one in data:
        if one.get("@type") == "WebSite" and (name := _clean(one.get("name"))):
            return name
    for one in data:
        publisher: object = one.get("publisher")
        if isinstance(publisher, dict) and (name := _clean(cast("dict[str, object]", publisher).get("name"))):
            return name
    return None


def _date(said: Iterable[object], metas: dict[str, str], keys: tuple[str, ...]) -> str | None:
    for value in (*said, *(metas.get(key) for key in keys)):
        if isinstance(value, str) and (date := iso_date(value)):
            return date
    return None


def _time(page: Page) -> str | None:
    """The one `time` element of the page, or the one that says that it is the date of publication."""
    times = [element for element in page.parts["time"] if element.get("datetime")]
    marked = [one for one in times if one.get("pubdate") is not None or one.get("itemprop") == "datePublished"]
    chosen = marked or (times if len(times) == 1 else [])
    return iso_date(str(chosen[0].get("datetime"))) if chosen else None


def iso_date(text: str) -> str | None:
    """`text` as ISO 8601, or None if it is not a date that can be read without guessing."""
    text = text.strip()
    try:
        return datetime.fromisoformat(text).isoformat() if len(text) > 10 else _day(text)
    except ValueError:
        return _day(text)


def _day(text: str) -> str | None:
    found = _DAY.match(text)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    try:
        return datetime(year, month, day).date().isoformat()  # noqa: DTZ001 - a day has no time zone
    except ValueError:
        return None


def _language(page: Page) -> str | None:
    for value in (page.root.get("lang"), page.root.get("xml:lang"), page.metas.get("content-language"),
                  page.metas.get("og:locale")):  # fmt: skip
        if value and _LANGUAGE.fullmatch(value.strip()):
            return value.strip().replace("_", "-")
    return None


def _canonical(page: Page) -> str | None:
    """The address the page gives itself, if it is one of the web."""
    for link in page.parts["link"]:
        if "canonical" in (link.get("rel") or "").lower().split() and link.get("href"):
            return web_address(page.url, str(link.get("href")))
    said = page.metas.get("og:url")
    return web_address(page.url, said) if said else None


@lru_cache(2_000)
def web_address(base: str, link: str) -> str | None:
    """`link` made absolute; None unless it leads to the web."""
    if _PLAIN_ADDRESS.fullmatch(link):
        return link
    try:
        whole = urljoin(base, link.strip())
        return whole if urlsplit(whole).scheme in {"http", "https"} else None
    except ValueError:
        return None

"""A parsed page: its tree, meta tags, JSON-LD and blocks, each read once; its metadata, dates and embedded data.

Metadata is taken in this order from: JSON-LD of the page's subject, OpenGraph and other meta tags, elements of the
page, the short texts around the headline. The title is the headline that readers see, if it is the one that is stated.
A date that would need guessing is left out, because a wrong date is worse than none.
"""

import contextlib
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urljoin, urlsplit

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.text import mail_date
from tidings.web.extract.html.blocks import Blocks, PageBlock
from tidings.web.extract.html.embeds import FORMULA_NAMES, write_formulas
from tidings.web.extract.html.hidden import hidden_texts, hiding_rules
from tidings.web.extract.html.selectors import remove
from tidings.web.extract.html.tree import Element, parse
from tidings.web.extract.html.vocabulary import SILENT
from tidings.web.extract.model import Extracted, ExtractOptions

_ENOUGH = 100  # Words from which the page's own text suffices.
_LONGEST = 500_000  # Characters of JSON-LD; more is data, not a description.

_TAGS = ("base", "link", "meta", "script", "style", "time", "title")


@dataclass(frozen=True)
class HtmlPage:
    """A parsed page, the input of all later steps."""

    url: str
    base: str  # The base URL of its links.
    root: Element
    body: Element
    parts: dict[str, list[Element]]  # The elements of the tags in `_TAGS`.
    metas: dict[str, str]  # The first content of each meta tag, by its name or property in lower case.
    data: list[dict[str, Any]]  # The objects of all JSON-LD scripts, including nested ones, in order.
    blocks: Blocks
    title: str  # The text of the `title` element.
    hidden: tuple[str, ...]  # Text that readers do not see.


def types_of(one: dict[str, Any]) -> list[str]:
    """Returns the schema.org types of an object in JSON-LD."""
    kind = one.get("@type")
    return [name for name in ([kind] if isinstance(kind, str) else as_list(kind)) if isinstance(name, str)]


def read_page(body: bytes, url: str, options: ExtractOptions | None = None) -> HtmlPage:
    """Parses `body`, which is UTF-8, without the parts that are to be removed. Raises `Unparsable`."""
    options = options or ExtractOptions()
    root = parse(body, options.caps)
    remove(root, (*options.remove_selectors, "ins.adsbygoogle"))
    if any(name in body for name in FORMULA_NAMES):
        write_formulas(root)
    within = root.find("body")
    within = root if within is None else within
    parts: dict[str, list[Element]] = {tag: [] for tag in _TAGS}
    for one in root.iter(*_TAGS):
        parts[one.tag].append(one)
    metas: dict[str, str] = {}
    for meta in parts["meta"]:
        name = meta.get("property") or meta.get("name") or meta.get("itemprop")
        if name and (content := meta.get("content")):
            metas.setdefault(name.lower(), content.strip())
    base = url
    if href := next(filter(None, (one.get("href") for one in parts["base"])), None):
        with contextlib.suppress(ValueError):
            base = urljoin(url, href)
    data: list[dict[str, Any]] = []
    for script in parts["script"]:
        text = script.text if "ld+json" in (script.get("type") or "") else None
        if text and len(text) < _LONGEST:
            with contextlib.suppress(ValueError, RecursionError):
                data += objects_in(json.loads(text, strict=False), 12)
    rules = hiding_rules(parts["style"])
    blocks = Blocks(within, rules=rules)
    if blocks.root.words < _ENOUGH:  # `noscript` is used only if there is next to nothing without it.
        others = Blocks(within, SILENT - {"noscript"}, rules)
        blocks = others if others.root.words >= _ENOUGH else blocks
    return HtmlPage(
        url=url,
        base=base,
        root=root,
        body=within,
        parts=parts,
        metas=metas,
        data=data,
        blocks=blocks,
        title=" ".join("".join(text for one in parts["title"][:1] for text in one.itertext()).split()),
        hidden=tuple(hidden_texts(blocks.hidden)),
    )


def objects_in(value: object, deepest: int) -> Iterator[dict[str, Any]]:
    """Yields the object that a value is, and those in it, up to so many levels below it."""
    if isinstance(value, dict):
        yield (one := cast("dict[str, Any]", value))
        value = list(one.values())
    for inner in as_list(value) if deepest else ():
        if isinstance(inner, dict | list):
            yield from objects_in(cast("object", inner), deepest - 1)


# The types and properties of schema.org and the meta tags that state facts and metadata.
STATED: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("facts.json").read_text("utf-8"))
_SUBJECTS: Final = frozenset[str](STATED["subjects"])
_PUBLISHED: Final[list[str]] = STATED["published_in"]
_AUTHOR: Final[list[str]] = STATED["author_in"]
_WORD: Final = re.compile(r"\w+")
_DAY: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_DASHES: Final = "|·•»\N{EN DASH}\N{EM DASH}-"
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WRITTEN_DATE: Final = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?)?({'|'.join(_MONTHS)})[a-z]*\.?,? "
    r"(?:(\d{1,2})(?:st|nd|rd|th)?,? )?((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_BYLINE: Final = re.compile(
    r"(?:^|\d,? |[|·•] ?|\b(?:written|posted|published|reviewed) )(?:by|author)\b:?(?: +(?=\w)|$)", re.IGNORECASE
)
_AFTER_NAME: Final = re.compile(
    rf"\s*(?:[|·•/(]|\s[{_DASHES}]\s|\d|\b(?:on|in|updated|published|{'|'.join(_MONTHS)})\b).*", re.IGNORECASE
)
_AROUND_HEADLINE: Final = range(-8, 13)  # Blocks that may have the author and the date.
_FEW_WORDS: Final = 16
_SEPARATOR: Final = re.compile(rf"\s+(?:[{_DASHES}]|::)\s+")
_LONGEST_METADATA: Final = 500
# URLs that are absolute and normal already, as nearly all links to other sites are.
_PLAIN_ADDRESS: Final = re.compile(
    r"https?://[\w.-]+(?::\d+)?(?:/[\w./~+,@!$*()%&=-]*)?(?:\?[\w./~+,@!$*()%&=-]+)?(?:#[\w.-]+)?", re.ASCII
)


def with_metadata(found: Extracted, page: HtmlPage) -> Extracted:
    """Returns `found` with the metadata of its page; None for what the page does not state."""
    about = [one for one in page.data if not _SUBJECTS.isdisjoint(types_of(one))]
    metas = page.metas
    sites = (one.get("name") for one in page.data if one.get("@type") == "WebSite")
    publishers = (as_dict(one.get("publisher")).get("name") for one in page.data)
    site = _first(metas.get("og:site_name"), metas.get("application-name"), *sites, *publishers)
    stated = *map(page.root.get, ("lang", "xml:lang")), *map(metas.get, ("content-language", "og:locale"))
    languages = (text.replace("_", "-") for one in stated if _LANGUAGE.fullmatch(text := (one or "").strip()))
    rels = ((link.get("href"), (link.get("rel") or "").lower().split()) for link in page.parts["link"])
    said = next((href for href, rel in rels if href and "canonical" in rel), metas.get("og:url"))
    return replace(
        found,
        title=_title(page, about, site),
        author=_author(page, about),
        published_at=_published(page, about),
        language=next(languages, None),
        site_name=site,
        description=_first(metas.get("description"), metas.get("og:description")),
        canonical_url=web_address(page.url, said) if said else None,
    )


def _clean(value: object) -> str | None:
    # Many pages escape it once more.
    text = " ".join(html.unescape(value).split())[:_LONGEST_METADATA] if isinstance(value, str) else ""
    return text or None


def _first(*values: object) -> str | None:
    return next((text for value in values if (text := _clean(value))), None)


def _title(page: HtmlPage, about: list[dict[str, Any]], site: str | None) -> str | None:
    """Returns the headline. The site's name, which often follows a stated title, is removed if it is known."""
    headlines = (one.get("headline") for one in about)
    stated = (*headlines, page.metas.get("og:title"), page.metas.get("twitter:title"), page.title)
    title = _first(*stated)
    known = set(_WORD.findall(" ".join(filter(None, map(_clean, stated))).lower()))
    for block in page.blocks.blocks:
        words = _WORD.findall(block.text.lower()) if block.node.tag == "h1" else []
        is_site = block.text.lower() == (site or "").lower()
        if words and not is_site and (title is None or sum(word in known for word in words) * 4 >= len(words)):
            return _clean(block.text)
    if title is None:
        return None
    parts = _SEPARATOR.split(title)
    if site and len(parts) > 1:
        if parts[-1].strip().lower() == site.lower():
            return title[: title.rindex(parts[-1])].rstrip(f" :{_DASHES}")
        if parts[0].strip().lower() == site.lower():
            return title[len(parts[0]) :].lstrip(f" :{_DASHES}")
    return title


def _author(page: HtmlPage, about: list[dict[str, Any]]) -> str | None:
    for one in about:
        if names := list(dict.fromkeys(_people(one.get("author")))):
            return ", ".join(names[:5])
    for key in _AUTHOR:
        value = _clean(page.metas.get(key))
        if value and not urlsplit(value).scheme:
            return value
    for element, said in page.blocks.noted["rel"]:
        if said == "author" and (name := _clean("".join(element.itertext()))):
            return name
    for block in _near_headline(page):  # A byline, or an element that is named as the author's.
        byline = _BYLINE.search(block.text)
        if byline or not {"author", "byline"}.isdisjoint(block.node.names):
            name = _AFTER_NAME.sub("", block.text[byline.end() if byline else 0 :]).strip(" ,:")
            if 1 <= len(name.split()) <= 8 and name[:1].isupper() and "uthor" not in name:
                return name
    return None


def _near_headline(page: HtmlPage) -> Iterator[PageBlock]:
    """Yields the short blocks around the headline, those after it first."""
    blocks = page.blocks.blocks
    headline = next((number for number, block in enumerate(blocks) if block.node.tag == "h1"), None)
    if headline is not None:
        for place in sorted(_AROUND_HEADLINE, key=lambda place: (place < 0, abs(place))):
            if 0 <= headline + place < len(blocks) and blocks[headline + place].words <= _FEW_WORDS:
                yield blocks[headline + place]


def _people(value: object) -> Iterable[str]:
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _people(one)
    elif isinstance(value, dict):
        yield from _people(cast("dict[str, object]", value).get("name"))
    elif name := _clean(value):
        yield name


def _published(page: HtmlPage, about: list[dict[str, Any]]) -> str | None:
    """Returns the first date that is stated; else that of the only `time` element, or of the one marked as it."""
    values = (*(one.get("datePublished") for one in about), *map(page.metas.get, _PUBLISHED))
    times = [element for element in page.parts["time"] if element.get("datetime")]
    marked = [one for one in times if one.get("pubdate") is not None or one.get("itemprop") == "datePublished"]
    chosen = marked[:1] or (times if len(times) == 1 else [])
    stated = (*values, *(one.get("datetime") for one in chosen))
    for value in stated:
        if isinstance(value, str) and (found := iso_date(value)):
            return found
    for block in _near_headline(page):  # A text such as "Updated 3 May 2024".
        if written := _WRITTEN_DATE.search(block.text):
            day, month, other, year = written.groups()
            with contextlib.suppress(ValueError):
                return date(int(year), _MONTHS.index(month.lower()) + 1, int(day or other or 0)).isoformat()
    return None


def iso_date(text: str) -> str | None:
    """Returns `text` as ISO 8601, or None if it is not a date that can be read without guessing."""
    text = text.strip()
    with contextlib.suppress(ValueError):
        if len(text) > 10:
            return datetime.fromisoformat(text).isoformat()
    with contextlib.suppress(ValueError):
        if found := _DAY.match(text):
            return date(*map(int, found.groups())).isoformat()
    return None


@lru_cache(2_000)
def web_address(base: str, link: str) -> str | None:
    """Returns `link` as an absolute URL; None unless it is a web address."""
    if _PLAIN_ADDRESS.fullmatch(link):
        return link
    with contextlib.suppress(ValueError):
        whole = urljoin(base, link.strip())
        return whole if urlsplit(whole).scheme in {"http", "https"} else None
    return None


_BODIES = ("articleBody", "text", "reviewBody", "description")
_WORTH = 25  # Words from which a description is useful.


def described(page: HtmlPage) -> str | None:
    """Returns the page's description for search engines; None if it is too short to be useful."""
    found = dict.fromkeys(text for one in page.data if (text := _long_text(one, _BODIES)))
    return "\n\n".join(found) or _long_text(page.metas, ("og:description", "description", "twitter:description"))


def _long_text(values: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Returns the first long text under one of these keys, unescaped and with single spaces."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, str) and len(value.split()) >= _WORTH:
            lines = (" ".join(line.split()) for line in html.unescape(value).splitlines())
            return "\n".join(line for line in lines if line)
    return None


_PDF = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(?:(\d\d)'?(\d\d)?'?)?)?")
_SPACED = re.compile(r"(\d{4}-\d\d-\d\d)\s+(\d\d:\d\d(?::\d\d)?)\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?")


def moment(text: str | None) -> str | None:
    """Returns the date of a feed as ISO 8601: RFC 822 (RSS), ISO 8601 (Atom) and forms in between."""
    text = " ".join((text or "")[:100].split())
    if not text:
        return None
    if text[:4].isdigit():
        if spaced := _SPACED.fullmatch(text):
            zone = "+00:00" if spaced[3] in {"Z", "UTC", "GMT"} else spaced[3] or ""
            text = f"{spaced[1]}T{spaced[2]}{zone}"
        return iso_date(text)
    # RFC 2822: `-0000` and unknown zone names count as UTC.
    found = mail_date(text)
    return found and found.isoformat()


def pdf_moment(text: str) -> str | None:
    """Returns the date of a PDF (`D:20240131120000+01'00'`) as ISO 8601."""
    found = _PDF.fullmatch(text.strip())
    if found is None:
        return iso_date(text)
    year, month, day, *time = (int(one) if one else None for one in found.groups()[:6])
    ahead = timedelta(hours=int(found[8] or 0), minutes=int(found[9] or 0))
    with contextlib.suppress(ValueError):
        if time[0] is None:
            return date(year or 1, month or 1, day).isoformat() if day else None
        zone = timezone(-ahead if found[7] == "-" else ahead) if found[7] else None
        return datetime(year or 1, month or 1, day or 1, time[0], time[1] or 0, time[2] or 0, tzinfo=zone).isoformat()
    return None

"""Facts that a page states for programs: price, availability, rating, dates, version.

They come from JSON-LD, microdata, and OpenGraph and other meta tags, in this order; a price and an availability also
from the words near the title, if nothing states them. They are those of the page's subject. On a page with several
products that are none of each other's variants there is no subject, and the text has to tell.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from tidings.web.extract.html.blocks import PageBlock
from tidings.web.extract.html.page import STATED, HtmlPage, iso_date, objects_in, types_of

_GOODS: Final = frozenset[str](STATED["goods"])
_ARTICLES: Final = frozenset[str](STATED["articles"])
_THINGS: Final = _GOODS | _ARTICLES | frozenset[str](STATED["others"])
_OTHERS: Final = ("isRelatedTo", "isSimilarTo", "isAccessoryOrSparePartFor", "itemListElement", "mentions", "about")
_PARTS: Final = ("offers", "aggregateRating", "hasVariant")
_ORDER = "price currency availability rating version status starts ends published modified"
_METAS: Final[dict[str, list[str]]] = STATED["metas"]
_SIMPLE: Final[dict[str, str]] = STATED["properties"]  # The properties of schema.org that state a fact.
_PRICES: Final = ("price", "lowPrice", "highPrice")
_AMOUNT: Final = re.compile(r"\d{1,3}(?:[.,'\s]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d{1,4})?")
_CURRENCY: Final = re.compile(r"[$€£¥₹₽₩₺]|\b(?:USD|EUR|GBP|JPY|CHF|SEK|NOK|DKK|PLN|CZK|AUD|CAD|INR|CNY|kr|zł)\b")
_STOCK: Final = re.compile(STATED["stock"], re.IGNORECASE)
_OLD: Final = re.compile(r"old|was|list-?price|regular|original|strike|compare|before|del\b|uvp|rrp")
_SAID: Final = re.compile(r"(?:(?:current|sale|our|your|special|final|now) )?price:?\s", re.IGNORECASE)
# A price alone, perhaps with the old one or a word about taxes behind it.
_ALONE: Final = re.compile(
    r"(?:from |now |only )?(?:[$€£¥₹]\s?\d[\d.,]*|\d[\d.,]*\s?€)(?!\s?/)\D{0,20}[$€£¥₹]?[\d.,]*\W*", re.IGNORECASE
)
_BEFORE: Final = 15  # blocks before the title
_NEAR: Final = 80  # blocks after it
_BESIDE: Final = 15  # blocks after it that may have a price which nothing names
_MOST: Final = 12  # prices


def facts_of(page: HtmlPage, title: str) -> dict[str, str]:
    """Returns the facts, by name, in a fixed order: also the title of the window, if it is not that of the page."""
    found: dict[str, list[str]] = {}
    for source in (_in_data(page), _in_microdata(page), _in_metas(page), _in_text(page, title)):
        stated: dict[str, list[str]] = {}
        for name, value in source:
            stated.setdefault(name, []).append(value)
        found = {**stated, **found}
    prices = sorted(dict.fromkeys(found.get("price", [])), key=float)[:_MOST]
    facts = {name: found[name][0] for name in _ORDER.split() if name in found}
    if len(prices) > 1:
        facts["price"] = ", ".join(prices)
    if "price" not in facts:
        facts.pop("currency", None)
    if page.title and title not in page.title:
        facts["window title"] = page.title[:500]
    return facts


def _amount(value: object) -> str | None:
    """Returns an amount as a plain number: "1.299,00 €" is 1299.00."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if (found := _AMOUNT.search(text[:60])) is None:
        return None
    whole, mark, cents = found[0], "", ""
    if last := re.search(r"[.,](\d{1,2}|\d{4})$", whole):
        whole, mark, cents = whole[: last.start()], ".", last[1]
    return re.sub(r"\D", "", whole) + mark + cents


def _value(name: str, value: object) -> str | None:
    if name == "price":
        return _amount(value)
    text = " ".join(str(value).split())[:100] if isinstance(value, str | int | float) else ""
    if name in ("published", "modified", "starts", "ends"):
        return iso_date(text)
    return re.sub(r"^https?://schema\.org/", "", text) or None


def _in_data(page: HtmlPage) -> Iterator[tuple[str, str]]:
    """Yields the facts of the subject in JSON-LD, with its offers and its rating."""
    others = {id(one) for each in page.data for key in _OTHERS for one in objects_in(each.get(key), 6)}
    things = [one for one in page.data if not _THINGS.isdisjoint(types_of(one)) and id(one) not in others]
    nested = {id(inner) for one in things for value in one.values() for inner in objects_in(value, 6)}
    subjects = [one for one in things if id(one) not in nested]
    goods = [one for one in subjects if not _GOODS.isdisjoint(types_of(one))]
    if len({str(one.get("name")) for one in goods}) > 1:
        subjects = [one for one in subjects if one not in goods]
    for one in subjects:
        yield from _stated(one)
        for key in _PARTS:
            for part in objects_in(one.get(key), 6):
                yield from _stated(part)


def _stated(part: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in _PRICES:
        if found := _value("price", part.get(key)):
            yield "price", found
    for key, name in _SIMPLE.items():
        if found := _value(name, part.get(key)):
            yield name, found


def _in_microdata(page: HtmlPage) -> Iterator[tuple[str, str]]:
    kinds = [(element, kind.rpartition("/")[2]) for element, kind in page.blocks.noted["itemtype"]]
    goods = [element for element, kind in kinds if kind in _GOODS]
    things = goods[:1] or [element for element, kind in kinds if kind in _THINGS][:1]
    if len(goods) > 1 and not all(one in set(goods[0].iter("*")) for one in goods[1:]):
        return
    for thing in things:
        for element in thing.iter():
            names = element.get("itemprop") or "" if isinstance(element.tag, str) else ""
            for key in names.split():
                name = "price" if key in _PRICES else _SIMPLE.get(key)
                said = next((value for key in ("content", "datetime", "href") if (value := element.get(key))), None)
                if name and (found := _value(name, said or "".join(element.itertext()))):
                    yield name, found


def _in_metas(page: HtmlPage) -> Iterator[tuple[str, str]]:
    for name, keys in _METAS.items():
        for key in keys:
            said = page.metas.get(key, "")
            if key == "twitter:data1" and page.metas.get("twitter:label1", "").lower() != "price":
                continue
            if found := _value(name, said):
                yield name, found
                break


def _in_text(page: HtmlPage, title: str) -> Iterator[tuple[str, str]]:
    """Yields prices and availabilities from the blocks around the title: prices that are named so; else the first one
    that stands alone after the title. Articles and lists have prices of other things: fewer are taken for their own.
    """
    blocks = page.blocks.blocks
    headings = (number for number, block in enumerate(blocks) if block.node.tag == "h1")
    first = min(headings, key=lambda number: blocks[number].text != title, default=len(blocks))
    types = [name for one in page.data for name in types_of(one)]
    types += [kind.rpartition("/")[2] for _, kind in page.blocks.noted["itemtype"]]
    strict = page.metas.get("og:type") == "article" or not _ARTICLES.isdisjoint(types)
    strict = strict or sum(name in _GOODS for name in types) > 1
    alone: PageBlock | None = None
    named = False
    for number in range(first if strict else max(first - _BEFORE, 0), min(first + _NEAR, len(blocks))):
        block = blocks[number]
        if number > first and block.words <= 6 and _STOCK.fullmatch(block.text):
            yield "availability", block.text.strip(" .!")
        names = " ".join(each.key for each in (block.node, block.node.parent) if each is not None).lower()
        is_price = "price" in names or (not strict and "pricing" in names)
        if (is_price and block.words <= 8 and not _OLD.search(names)) or (not strict and _SAID.match(block.text)):
            facts = _price(block.text)
            named = named or bool(facts)
            yield from facts
        elif alone is None and 0 < number - first <= _BESIDE and not _OLD.search(names):
            alone = block if _ALONE.fullmatch(block.text) else None
    if alone is not None and not named and not strict:
        yield from _price(alone.text)
    elif not named:
        only = [block for block in blocks if "price" in block.node.key and block.words <= 8]
        only = [block for block in only if not _OLD.search(block.node.key)]
        yield from _price(only[0].text) if len(only) == 1 else ()


def _price(text: str) -> tuple[tuple[str, str], ...]:
    currency, amount = _CURRENCY.search(text[:60]), _amount(text)
    return (("price", amount), ("currency", currency[0])) if currency and amount else ()

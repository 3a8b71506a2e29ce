"""Pages that change, and pages where only what stands beside the content differs: what a watcher must tell apart.

A `Specimen` is a page as a tree. Each of `CHANGES` alters its content; each of `NOISES` redraws something that is on
the page for other reasons. The real pages come from the collection that `web_truth` reads, so their content is known;
the others are made here. Names and headings of what is put in are partly those that pages usually have, partly made up.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from benchmarks.parts.web_labels import labels
from benchmarks.parts.web_truth import Known
from tidings.web.extract.html.blocks import PageBlock
from tidings.web.extract.html.page import read_page
from tidings.web.extract.html.tree import etree
from tidings.web.extract.sniff import as_utf8

CHANGES: Final = ("sentence", "price", "title", "deleted", "added", "row")
NOISES: Final = ("related", "advertisement", "counters", "times", "session", "teasers", "csrf")

_LISTS: Final = frozenset(("collection", "listing"))
"""Kinds of pages."""
_PROSE: Final = 8
"""Words of a block that counts as prose."""
_CONTENT: Final = 0.7
_FIXED: Final = frozenset(("td", "th", "tr", "dt", "dd", "caption", "summary", "figcaption", "label", "span", "a"))
_WORDS: Final = re.findall(
    r"\w+",
    "harbour council winter market ferry museum budget garden recipe travel music storm report village bridge school "
    "engine software release camera battery river mountain train station policy energy water history library theatre "
    "season player coach league health doctor study science planet signal network server update model design colour "
    "kitchen table chair window street traffic weather summer island coast forest animal bird horse winter festival",
)
_LITTLE: Final = re.findall(r"\w+", "the a of in for with and on at by from near under after before without")
_RELATED: Final = ("Related stories", "You may also like", "Recommended for you", "More from this site", "Keep reading",
    "Also in this section", "Don't miss", "Popular now", "Read next", "Editor's picks")  # fmt: skip
_RELATED_NAMES: Final = ("related-posts", "recommendations", "sidebar-list", "more-stories", "c-rail", "teaser-box")
_ADS: Final = (
    '<div class="ad-slot" id="div-gpt-ad-{n}"><p>{text}</p></div>',
    '<aside class="advertisement"><p>{text}</p></aside>',
    '<div class="{name}"><span>Advertisement</span><p>{text}</p></div>',
    '<div class="{name}"><small>Sponsored</small><p>{text}</p></div>',
    '<div data-ad-slot="{n}" class="ad-container"><p>{text}</p></div>',
    '<div class="{name}"><div class="adsbygoogle" style="display:block"><p>{text}</p></div></div>',
)

_CAMEL: Final = re.compile(r"([a-z])([A-Z])")
_TEASER_NAME: Final = re.compile(
    r"\b(?:ads?|advert\w*|sponsor\w*|promo\w*|related|recommend\w*|popular|trending|teasers?|more-stories|read-next"
    r"|newsletter)\b"
)
_TEASER_TITLE: Final = re.compile(
    rf"(?:{'|'.join(map(re.escape, _RELATED))}|related|recommended|popular|most (?:read|popular)|trending|advertisement"
    r"|sponsored)\b.{0,40}$",
    re.IGNORECASE,
)


def prose(draw: random.Random, count: int) -> str:
    """A sentence of so many words."""
    found = [draw.choice(_WORDS if place % 2 else _LITTLE) for place in range(count)]
    return " ".join(found).capitalize() + "."


def element(html: str) -> Any:
    """The element that is written."""
    return etree.fromstring(html, etree.HTMLParser()).find("body")[0]


def _after(place: Any, new: Any) -> Any:
    new.tail, place.tail = place.tail, None
    place.addnext(new)
    return new


def _is_beside(block: PageBlock, words: int, *, lists: bool) -> bool:
    """Whether nobody would call a block the content of a page with so many words, though its words are labelled so.

    That is: what no reader sees when the page opens, and what a part of the page, less than half of it, says to be a
    teaser or an advertisement in the way in which the noises say it. Nobody could tell a change there from a noise. A
    block that is wholly a link leads to content, which is elsewhere, except on a page that `lists` things.
    """
    if block.hidden_spans or (block.links == block.words and not lists):
        return True
    for node in block.node.upwards():
        if 2 * node.words > words:
            return False
        each = node.element
        if each.tag == "dialog" or each.get("role") in ("dialog", "alertdialog"):
            return True
        if _TEASER_NAME.search(_CAMEL.sub(r"\1-\2", f"{each.get('class')} {each.get('id')}").lower()):
            return True
        titles = each.xpath("*[self::h2 or self::h3 or self::h4 or self::h5 or self::h6 or self::div or self::span]")
        if any(_TEASER_TITLE.match(" ".join("".join(title.itertext()).split())) for title in titles[:2]):
            return True
    return False


class Specimen:
    """A page that can be altered."""

    def __init__(self, name: str, body: bytes, url: str, content: str, seed: int, *, kind: str = "") -> None:
        self.name, self.draw = name, random.Random(f"{name} {seed}")
        self.page = read_page(as_utf8(body, None), url)
        self.root: Any = self.page.root
        blocks = self.page.blocks.blocks
        marked = zip(blocks, labels([block.text for block in blocks], content), strict=True)
        words = sum(block.words for block in blocks)
        said = (block for block, label in marked if label and label > _CONTENT)
        self.content = [block for block in said if not _is_beside(block, words, lists=kind in _LISTS)]
        self.prose = [block for block in self.content if block.words >= _PROSE and block.node.tag not in _FIXED]
        self.done: dict[str, str] = {}
        """What was changed, by its kind, for people who look at what was missed."""
        if self.usable:
            self._furnish()

    @property
    def usable(self) -> bool:
        return len(self.prose) >= 6

    def html(self) -> bytes:
        return etree.tostring(self.root, encoding="utf-8", method="html", doctype="<!DOCTYPE html>")

    def alter(self, kind: str) -> None:
        """Make one of `CHANGES` or `NOISES`."""
        act: Callable[[], str | None] = getattr(self, f"_{kind}")
        self.done[kind] = act() or ""

    def _furnish(self) -> None:
        """Put in what will be redrawn, as far as the page has nothing of the kind."""
        draw, content = self.draw, self._texts()
        self._price_line = _after(content[0], element('<p class="price">€ 49.90</p>'))
        rows = "".join(f"<tr><td>{prose(draw, 2)}</td><td>{draw.randint(1, 99)} km</td></tr>" for _ in range(4))
        head = "<thead><tr><th>Route</th><th>Length</th></tr></thead>"
        self._table = _after(content[2], element(f"<table>{head}<tbody>{rows}</tbody></table>")).find(".//tbody")
        self._counter = _after(content[0], element("<p></p>"))
        self._clock = _after(content[-1], element("<p></p>"))
        self._ad = _after(content[len(content) // 2], element("<div></div>"))
        words = f"{prose(draw, 6)} <a>{prose(draw, 4)}</a> {prose(draw, 6)} <a>{prose(draw, 3)}</a>"
        self._linked = _after(content[1], element(f"<p>{words}</p>"))
        above: Any = content[-1]
        for _ in range(draw.randint(0, 3)):
            parent = above.getparent()
            if parent is not None and parent.tag != "body" and parent.getparent() is not None:
                above = parent
        self._related_list = _after(above, element("<div></div>"))
        items = "".join(f"<li><a href='/t/{n}'>{prose(draw, 6)}</a></li>" for n in range(draw.randint(4, 7)))
        self._teaser_list = _after(above, element(f'<ul class="{self._made_up()}">{items}</ul>'))
        form = '<form action="/search"><input type="hidden" name="csrf_token"><input type="text" name="q"></form>'
        self._form = _after(content[0], element(form))
        self._heading, self._name = draw.choice(_RELATED), draw.choice((*_RELATED_NAMES, self._made_up()))
        self._ad_form, self._ad_name = draw.choice(_ADS), self._made_up()
        for kind in NOISES:
            self.alter(kind)

    def _is_there(self, block: PageBlock) -> bool:
        """Whether neither a block nor what is around it was deleted."""
        return any(around is self.root for around in block.node.element.iterancestors())

    def _texts(self) -> list[Any]:
        """The elements of the prose after which others can be put."""
        return [block.node.element for block in self.prose if self._is_there(block)]

    def _made_up(self) -> str:
        return f"css-{self.draw.randrange(16**5):05x}"

    # Changes.

    def _piece(self, fits: Callable[[str], bool]) -> tuple[Any, str, str] | None:
        """A text within the prose: its element, whether it is the text or the tail, and the text."""
        blocks = [block for block in self.prose if self._is_there(block)]
        self.draw.shuffle(blocks)
        for block in blocks:
            for inner in block.node.element.iter():
                for where in ("text", "tail") if inner is not block.node.element else ("text",):
                    if (text := getattr(inner, where) or "").strip() and text.strip() in block.text and fits(text):
                        return inner, where, text
        return None

    def _sentence(self) -> str | None:
        found = self._piece(lambda text: len(text.split()) >= 6)
        if found is None:
            return None
        inner, where, text = found
        words = text.split(" ")
        place = self.draw.randrange(len(words) - 3)
        words[place : place + 3] = ["without", self.draw.choice(_WORDS), self.draw.choice(_WORDS)]
        setattr(inner, where, " ".join(words))
        return f"{text[:80]!r} -> {' '.join(words)[:80]!r}"

    def _price(self) -> None:
        self._price_line.text = f"€ {self.draw.randint(20, 44)}.90"

    def _title(self) -> str:
        title = prose(self.draw, 6)
        only_window = self.draw.random() < 0.5
        found = self.root.find(".//title")
        if found is None:
            head = self.root.find("head")
            head = self.root if head is None else head
            found = etree.SubElement(head, "title")
        found.text = title
        for meta in self.root.iter("meta") if not only_window else ():
            if (meta.get("property") or meta.get("name") or "").lower() in ("og:title", "twitter:title"):
                meta.set("content", title)
        return title

    def _deleted(self) -> str:
        block = self._spare()
        self.prose.remove(block)
        gone: Any = block.node.element
        if gone.tail:
            _after(gone, element("<span></span>")).tail = gone.tail
            gone.tail = None
        gone.getparent().remove(gone)
        return block.text[:100]

    def _spare(self) -> PageBlock:
        """A block of prose with nothing in it that is needed for something else."""
        needed = (self._price_line, self._table, self._counter, self._clock, self._ad, self._linked, self._form,
            self._related_list, self._teaser_list)  # fmt: skip
        blocks = [block for block in self.prose if self._is_there(block)]
        free = [block for block in blocks if not any(each in needed for each in block.node.element.iter())]
        return self.draw.choice(free[1:] or free or blocks)

    def _added(self) -> str:
        block = self.draw.choice([block for block in self.prose if self._is_there(block)])
        beside: Any = block.node.element
        named = {key: value for key, value in beside.items() if key in ("class", "style")}
        new = etree.Element(beside.tag if beside.tag in ("p", "li", "div") else "p", named)
        new.text = " ".join(prose(self.draw, self.draw.randint(6, 14)) for _ in range(2))
        _after(beside, new)
        return f"<{new.tag} {named}> {new.text[:80]} after {block.text[:60]!r}"

    def _row(self) -> None:
        self._table.append(
            element(f"<table><tr><td>{prose(self.draw, 3)}</td><td>7 km</td></tr></table>").find(".//tr")
        )

    # What is no change.

    def _related(self) -> None:
        draw = self.draw
        items = "".join(
            f'<li><a href="/{draw.random()}">{prose(draw, draw.randint(4, 9))}</a></li>'
            for _ in range(draw.randint(3, 8))
        )
        parts = f"<h3>{self._heading}</h3><ul>{items}</ul>" if draw.random() < 0.8 else ""
        self._related_list = self._replaced(self._related_list, f'<div class="{self._name}">{parts}</div>')

    def _advertisement(self) -> None:
        draw = self.draw
        text = f"{prose(draw, 5)} {prose(draw, 7)} Buy now."
        shown = self._ad_form.format(n=draw.randrange(10**6), text=text, name=self._ad_name)
        self._ad = self._replaced(self._ad, shown if draw.random() < 0.8 else "<div></div>")

    def _replaced(self, old: Any, html: str) -> Any:
        new = element(html)
        new.tail = old.tail
        old.getparent().replace(old, new)
        return new

    def _counters(self) -> None:
        number = self.draw.randint(2, 99_999)
        self._counter.text = f"{number:,} views · {number % 50} comments · {number % 7 + 1} people are watching"

    def _times(self) -> None:
        draw = self.draw
        clock = f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}"
        self._clock.text = f"Updated {draw.randint(2, 59)} minutes ago. Page generated on 2026-11-18 at {clock}."

    def _session(self) -> None:
        for number, link in enumerate(self._linked.iter("a")):
            link.set("href", f"/go/{number}?page=2&sid={self.draw.randrange(16**24):024x}")

    def _teasers(self) -> None:
        items = list(self._teaser_list)
        self.draw.shuffle(items)
        self._teaser_list[:] = items

    def _csrf(self) -> None:
        for field in self._form.iter("input"):
            if field.get("type") == "hidden":
                field.set("value", f"{self.draw.randrange(16**32):032x}")


def real(known: Sequence[Known], most: int, seed: int = 1) -> Iterator[Specimen]:
    """So many of the pages, those with enough prose."""
    chosen = sorted(known, key=lambda page: random.Random(f"{page.id} {seed}").random())
    found = 0
    for page in chosen:
        if found == most:
            return
        made = Specimen(page.id, page.body, page.url, page.content, seed, kind=page.kind)
        if made.usable:
            found += 1
            yield made


def synthetic(most: int, seed: int = 1) -> Iterator[Specimen]:
    """So many pages of five kinds, each with names of its own."""
    for number in range(most):
        draw = random.Random(f"synthetic {number} {seed}")
        name = f"s{number}"
        text, content = _made(draw, number % 5)
        yield Specimen(name, text.encode(), f"https://{name}.example/page", content, seed)


def _made(draw: random.Random, kind: int) -> tuple[str, str]:
    """An article, a product, a documentation page, a thread or a list of entries; and its content."""
    name = [f"{draw.choice(_WORDS)}-{draw.randrange(100)}" for _ in range(6)]
    title, said = prose(draw, 6), [f"{prose(draw, 16)} {prose(draw, 12)}" for _ in range(draw.randint(8, 14))]
    menu = "".join(f'<li><a href="/{word}">{word.title()}</a></li>' for word in draw.sample(_WORDS, 8))
    block = {
        0: '<p class="{0}">{1}</p>',
        1: '<div class="{0}"><p>{1}</p></div>',
        2: '<section class="{0}"><h3>{2}</h3><p>{1}</p></section>',
        3: '<div class="{0} post"><b>{2}</b><p>{1}</p></div>',
        4: '<li class="{0}"><h4>{2}</h4><p>{1}</p></li>',
    }[kind]
    parts = [block.format(name[0], text, prose(draw, 2)[:-1]) for text in said]
    inside = f"<ul>{''.join(parts)}</ul>" if kind == 4 else "".join(parts)
    main = f'<div class="{name[1]}"><h1>{title}</h1>{inside}</div>'
    main = f"<main>{main}</main>" if draw.random() < 0.4 else main
    body = f'<header><a href="/">{name[2]}</a><nav><ul>{menu}</ul></nav></header>{main}'
    foot = f'<footer class="{name[3]}"><p>All rights reserved. {prose(draw, 5)}</p></footer>'
    page = f"<html><head><title>{title}</title></head><body>{body}{foot}</body></html>"
    return page, "\n".join([title, *(re.sub("<[^>]+>", " ", part) for part in parts)])

"""Elements that readers do not see, by styles, rules, attributes and class names. Linear in the size of the page.

- `PLAINLY_HIDDEN`: hidden by its own style in the plainest way; inside a sentence it is not content.
- `INVISIBLE`: hidden by a style, or by a rule for one class or id in a `style` element. It may be content, for example
  a tab, so the text is kept and its place reported.
- `HIDDEN_FROM_SOME`: hidden from users of screen readers (`aria-hidden`), or from all others (`sr-only`).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tidings.web.extract.html.tree import Element, text_pieces
from tidings.web.extract.html.vocabulary import INLINE, SILENT

_RULES = 200_000  # Characters of style elements that are read.
# The most hidden texts that are reported, and the most characters of each and of all.
_PARTS, _PART, _ALL = 200, 2_000, 40_000
_LISTENERS = frozenset(  # Classes for users of screen readers.
    ("sr-only", "visually-hidden", "visuallyhidden", "u-visually-hidden", "show-for-sr", "assistive-text",
     "screen-reader-text", "screen-reader-only", "screenreader-only")
)  # fmt: skip

_PLAINLY_HIDING = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?:font-size|opacity)\s*:\s*0(?:px|em|%)?\s*(?:;|!|$)", re.IGNORECASE
)
_LIKELY = re.compile(r"none|hidden|[:.\s]0|1px|collapse|transparent|color|clip|-\d|[(,]\s?0|100%", re.IGNORECASE)
_MEASURE = re.compile(r"([+-]?\d{0,9}(?:\.\d{1,9})?)([a-z]{0,4}|%)")
# Offsets from which an element is off the screen.
_AWAY = {"": -999.0, "px": -999.0, "pt": -750.0, "em": -60.0, "rem": -60.0, "%": -100.0, "vw": -100.0, "vh": -100.0}
_MOVED = re.compile(r"translate[xy3d]{0,2}\([^)]{0,30}-(?:\d{4,9}px|\d{3,9}v[wh])|scale[xy]?\(0[,)]")
_CLEAR = re.compile(
    r"transparent|(?:rgba?|hsla?)\([^()]{1,60}[,/]\s?0?(?:\.0{1,9}|0)%?\s?\)|#[\da-f]{3}0|#[\da-f]{6}00"
)
_COLOURS = {"white": "#ffffff", "rgb(255,255,255)": "#ffffff", "black": "#000000", "rgb(0,0,0)": "#000000"}
_CLIPPED = re.compile(r"rect\(\s?(?:[01](?:px)?[,\s]{0,3}){4}\)")
_CUT = re.compile(r"inset\(\s?(?:[5-9]\d|100)%|(?:circle|ellipse)\(\s?0|polygon\(\s?(?:0(?:px|%)?[,\s]{0,3}){4,20}\)")
_SELECTOR = re.compile(r"[a-z]{0,10}\d?([.#][\w-]{1,100})")
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_THROUGH = re.compile(r"@(?:layer\b.*|supports\b.*|media (?:only )?(?:screen|all))")

HIDDEN_FROM_SOME: Final = 1
INVISIBLE: Final = 2
PLAINLY_HIDDEN: Final = 3


def of_classes(rules: frozenset[str], named: str) -> int:
    """Returns the degree of hiding by classes; 0 is visible. `rules` has those that the page hides."""
    words = named.lower().split()
    if rules and any(f".{word}" in rules for word in words):
        return INVISIBLE
    return 0 if _LISTENERS.isdisjoint(words) else HIDDEN_FROM_SOME


def of_style(style: str) -> int:
    """Returns the degree of hiding by a style."""
    return PLAINLY_HIDDEN if _PLAINLY_HIDING.search(style) else INVISIBLE if hides(style) else 0


def hides(style: str) -> bool:
    """Returns whether the text of an element with this style is invisible."""
    if not _LIKELY.search(style):
        return False
    said: dict[str, str] = {}
    for declaration in style.lower().split(";"):
        key, colon, value = declaration.partition(":")
        if colon:
            said[key.strip()] = " ".join(value.removesuffix("!important").split())[:200]
    return any(_reasons(said))


def _reasons(said: dict[str, str]) -> Iterator[bool]:
    def of(key: str) -> str:
        return said.get(key, "")

    yield of("display") == "none"
    yield of("visibility") in {"hidden", "collapse"}
    yield of("content-visibility") == "hidden"
    yield _small(of("opacity"), 0.02)
    yield _small(of("font-size"), 1)
    yield _colourless(said)
    yield _CLIPPED.match(of("clip")) is not None or _CUT.match(of("clip-path")) is not None
    yield of("position") in {"absolute", "fixed"} and any(_far(of(side)) for side in ("left", "top", "right", "bottom"))
    yield _far(of("text-indent"))
    yield any(_far(of(side)) for side in ("margin-left", "margin-top") if "%" not in of(side))
    yield _MOVED.search(of("transform")) is not None
    if of("overflow") in {"hidden", "clip"}:
        yield any(_small(of(size), 1) for size in ("width", "height", "max-width", "max-height"))
        yield of("text-indent") == "100%"


def _small(value: str, most: float) -> bool:
    """Returns whether a measure is zero, or at most `most` pixels or without a unit."""
    number, unit = _measured(value)
    return number is not None and (number == 0 or (0 < number <= most and unit in {"", "px"}))


def _far(value: str) -> bool:
    number, unit = _measured(value)
    return number is not None and number <= _AWAY.get(unit, -999.0)


def _measured(value: str) -> tuple[float | None, str]:
    found = _MEASURE.fullmatch(value) if value else None
    return (float(found[1]), found[2]) if found and found[1].strip("+-") else (None, "")


def _colourless(said: dict[str, str]) -> bool:
    """Returns whether letters are transparent or of the background's colour. A background clipped to the text shows."""
    colour = said.get("-webkit-text-fill-color") or said.get("color")
    if not colour or "text" in (said.get("background-clip"), said.get("-webkit-background-clip")):
        return False
    if _CLEAR.fullmatch(colour):
        return True
    behind = said.get("background-color") or said.get("background") or ""
    return _normal(colour) == _normal(behind)


def _normal(colour: str) -> str:
    """Returns one notation for white and black."""
    short = colour.replace(" ", "")
    if len(short) == 4 and short[0] == "#":
        short = "#" + "".join(2 * one for one in short[1:])
    return _COLOURS.get(short, short)


def hiding_rules(styles: Iterable[Element]) -> frozenset[str]:
    """Returns the classes and ids, as `.class` and `#id` in lower case, that a rule of a page hides anywhere."""
    found: set[str] = set()
    room = _RULES
    for element in styles:
        text = (element.text or "")[:room]
        room -= len(text)
        if text and (element.get("media") or "").strip() != "print":
            for selectors, style in _simple(_COMMENT.sub("", text.lower().replace("<!--", ""))):
                names = [named[1] for one in selectors.split(",") if (named := _SELECTOR.fullmatch(one.strip()))]
                if names and hides(style):
                    found.update(names)
                elif names and "display" in style:
                    # The last rule counts: it may show the element again.
                    found.difference_update(names)
    return frozenset(found)


def _simple(css: str) -> Iterator[tuple[str, str]]:
    """Yields the rules that may hide or show something and always apply, so not those for print or some widths."""
    applies: list[bool] = []  # For each enclosing block.
    doubtful = 0
    for part in css.split("}"):
        if (opened := part.count("{")) != 1:
            if not opened:
                doubtful -= bool(applies) and not applies.pop()
                continue
            for one in part.split("{")[:-2]:
                applies.append(_THROUGH.fullmatch(" ".join(one.split())) is not None)
                doubtful += not applies[-1]
        # This runs for every rule of a page. A regular expression would take several times as long.
        if not doubtful and (
            "display" in part
            or "visibility" in part
            or "opacity" in part
            or "size:0" in part
            or "size: 0" in part
            or "transparent" in part
            or "clip" in part
            or "-999" in part
        ):
            around, _, style = part.rpartition("{")
            yield around.rpartition("{")[2].rpartition(";")[2], style


def hidden_texts(elements: Sequence[Element]) -> Iterator[str]:
    """Yields the distinct texts of hidden elements, without nested ones, bounded in number and size."""
    covered: set[Element] = set()
    seen: set[str] = set()
    among = frozenset(elements)
    room, parts = _ALL, _PARTS
    for element in elements:
        if element in covered or element.tag in SILENT:
            continue
        covered.update(one for one in element.iter("*") if one in among)
        pieces: list[str] = []
        most = min(room, _PART)
        for piece in text_pieces(element, SILENT, INLINE):
            pieces.append(piece[: most + 1])
            most -= len(piece)
            if most <= 0:
                break
        text = " ".join("".join(pieces)[:_PART].split())
        if text and text not in seen:
            seen.add(text)
            yield text
            room -= len(text)
            parts -= 1
            if room <= 0 or parts <= 0:
                return

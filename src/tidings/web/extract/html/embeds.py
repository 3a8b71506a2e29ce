"""Contents of a page besides text: formulas, pictures, embedded pages, videos and recordings.

A formula becomes one `math` element that holds its TeX, in place of all that KaTeX, MathJax or MediaWiki draw it with,
and of the TeX between marks that Sphinx, MkDocs and GitHub leave to scripts.
It is part of the sentence around it. The TeX of an annotation is not shown to readers, so it is used only if it cannot
be read as a sentence.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from tidings.web.extract.html.tree import Element, drop
from tidings.web.extract.html.vocabulary import MARKUP

FORMULA_NAMES: Final = (b"math", b"MATH", b"arithmatex")  # A page with a formula has one of them.
_DRAWN: Final = re.compile(r"(?:^|\s)(?:katex|katex-display|MathJax\w*|mwe-math-element)(?:\s|$)")
_TO_DRAW: Final = re.compile(r"(?:^|\s)(?:math|arithmatex)(?:\s|$)")
_MARKED_TEX: Final = re.compile(r"\\\((.*?)\\\)|\\\[(.*?)\\\]|\A\s*\$\$(.+?)\$\$\s*\Z|\A\s*\$([^$]+)\$\s*\Z", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?:[^\W\d_]{2,}[\s,.;:!?]+){4}")
_COMMAND: Final = re.compile(r"\\[A-Za-z]+|\{[^{}]*\}")
_LONGEST: Final = 4_000  # Characters of a formula.
_DEEPEST: Final = 40
_FORMS: Final = {  # The TeX of elements with so many parts.
    ("msup", 2): "{0}^{group[1]}", ("mover", 2): "{0}^{group[1]}", ("msub", 2): "{0}_{group[1]}",
    ("munder", 2): "{0}_{group[1]}", ("msubsup", 3): "{0}_{group[1]}^{group[2]}",
    ("munderover", 3): "{0}_{group[1]}^{group[2]}", ("mfrac", 2): "\\frac{{{0}}}{{{1}}}",
    ("mroot", 2): "\\sqrt[{1}]{{{0}}}",
}  # fmt: skip


def write_formulas(root: Element) -> None:
    """Replaces each formula of a page by a `math` element that holds its TeX."""
    for script in root.xpath("//script[starts-with(@type, 'math/tex')]"):
        for drawn in [one for one in script.itersiblings(preceding=True) if _is_drawn(one)][:2]:
            drop(drawn)
        script.tag = "math"
        _set(script, script.text or "", block="display" in (script.get("type") or ""))
    for element in root.xpath("//*[self::math-renderer or contains(@class, 'math') or contains(@class, 'arithmatex')]"):
        if element.tag == "math-renderer" or _TO_DRAW.search(element.get("class") or ""):
            found = _MARKED_TEX.search("".join(element.itertext()))
            if found and element.find(".//math") is None and not _is_prose(found[0]):
                element.tag = "math"
                _set(element, next(filter(None, found.groups()), ""), block=bool(found[2] or found[3]))
    for math in root.xpath("//math[*]"):
        _write_math(math)


def _write_math(math: Element) -> None:
    # The TeX that the page gives, or else that of the elements.
    stated = [one.text for one in math.iter("annotation") if "tex" in (one.get("encoding") or "")]
    given = (one for one in (*stated, math.get("alttext")) if one and not _is_prose(one))
    text = next(given, None) or _linear(math, 0)
    block = math.get("display") == "block" or math.get("mode") == "display"
    drawn, above = None, math.getparent()
    for _ in range(5):
        if above is not None and _is_drawn(above) and sum(1 for _ in above.iter("math")) == 1:
            drawn = above
            block = block or "display" in (above.get("class") or above.get("display") or "")
        above = above.getparent() if above is not None else None
    if drawn is not None:
        for child in list(drawn):
            drop(child)
        drawn.text = None
        cast("Any", drawn).append(math)
        math.tail = None
    _set(math, text, block=block)


def _is_drawn(element: Element) -> bool:
    return element.tag == "mjx-container" or _DRAWN.search(element.get("class") or "") is not None


def _set(math: Element, text: str, *, block: bool) -> None:
    for child in list(math):
        cast("Any", math).remove(child)
    math.text = " ".join(text.split())[:_LONGEST]
    if block:
        cast("Any", math).set("display", "block")


def _is_prose(text: str) -> bool:
    return _SENTENCE.search(_COMMAND.sub(" ", text)) is not None


def _linear(element: Element, depth: int) -> str:
    """Returns presentation MathML as TeX."""
    if depth > _DEEPEST:
        return "".join(element.itertext())
    tag = element.tag
    inner = [_linear(one, depth + 1) for one in element if one.tag not in {"annotation", "annotation-xml"}]
    if tag == "mtext":
        return f"\\text{{{''.join(element.itertext()).strip()}}}"
    if not inner:
        return (element.text or "").strip()
    if form := _FORMS.get((tag, len(inner))):
        return form.format(*inner, group=[one if len(one) == 1 else f"{{{one}}}" for one in inner])
    if tag == "msqrt":
        return f"\\sqrt{{{' '.join(inner)}}}"
    joined = {"mtable": " \\\\ ", "mtr": " & "}.get(tag, " ").join(inner if tag == "mtable" else filter(None, inner))
    return f"\\begin{{matrix}} {joined} \\end{{matrix}}" if tag == "mtable" else joined


_EMBEDDED: Final = {"iframe": "Embedded page", "video": "Video", "audio": "Audio", "object": "Embedded object"}
_VIDEOS: Final = re.compile(MARKUP["videos"])
_UNSEEN_FRAMES: Final = re.compile(MARKUP["unseen_frames"], re.IGNORECASE)
_SMALL: Final = frozenset(("0", "1", "0px", "1px"))
_SOURCES: Final = ("data-src", "data-lazy-src", "data-original", "data-url", "src", "data")
_EMOJI: Final = re.compile(r"(?:^|[\s_-])(?:emoji|smiley|smilie)", re.IGNORECASE)
_FORMULA: Final = re.compile(r"(?:^|\s)(?:latex|tex|math|mwe-math-\S*)(?:\s|$)")


def embedded(element: Element) -> tuple[str, str] | None:
    """Returns the label and the URL of an embedded page, video or recording; None if readers do not see it."""
    tag, style = element.tag, (element.get("style") or "").replace(" ", "")
    hidden = {element.get("width"), element.get("height")} & _SMALL or element.get("hidden") is not None
    film = (element.get("videoid") or element.get("data-videoid")) if "youtube" in tag else None
    source = next(_sources(element), f"https://www.youtube.com/watch?v={film}" if film else "")
    if not source or hidden or "display:none" in style or _UNSEEN_FRAMES.search(source):
        return None
    label = "Video" if _VIDEOS.search(source) else _EMBEDDED.get(tag.removeprefix("amp-"), "Embedded object")
    said = " ".join((element.get("title") or element.get("aria-label") or element.get("playlabel") or "").split())[:200]
    return (f"{label}: {said}" if said and said.lower() != label.lower() else label), source


def _sources(element: Element) -> Iterator[str]:
    for one in (element, *element.iter("source")):
        yield from (value for key in _SOURCES if (value := (one.get(key) or "").strip()) and value != "about:blank")


def picture(element: Element) -> tuple[str, str]:
    """Returns the alternative text and the URL of an image; no URL for an emoji, which is its text."""
    alt, names = " ".join((element.get("alt") or "").split()), element.get("class") or ""
    if alt and (_EMOJI.search(names) or (len(alt) <= 4 and not alt.isascii() and not any(map(str.isalnum, alt)))):
        return alt, ""
    if alt and _FORMULA.search(names):
        plain = alt.removeprefix("{\\displaystyle ").removesuffix("}") if alt.startswith("{") else alt
        return f"${plain}$", ""
    if usual := next((value for value in _sources(element) if not value.startswith("data:")), ""):
        return alt, usual
    found: list[tuple[float, str]] = []  # Each with its width or density: the largest one is taken.
    for one in (element.get("srcset") or element.get("data-srcset") or "").split(", "):
        url, _, size = one.strip().partition(" ")
        number = size.strip().rstrip("wx,")
        found.append((float(number) if number.replace(".", "", 1).isdigit() else 1.0, url.rstrip(",")))
    return alt, max(found)[1]

"""What the elements of a page are for, told by their tags and roles."""

from typing import Final

_INLINE_WRITTEN = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp small span "
    "strike strong sub sup time tt u var wbr"
)
INLINE: Final = frozenset(_INLINE_WRITTEN.split())
_SILENT_WRITTEN = (
    "script style noscript template svg math iframe object embed applet head select option datalist textarea "
    "canvas audio video map link meta title"
)
SILENT: Final = frozenset(_SILENT_WRITTEN.split())
MARKED: Final = frozenset(["a", "b", "strong", "i", "em", "code", "kbd", "samp", "time"])
"""Inline elements whose beginning and end are kept."""

PASS, MARK, POINT, SKIP = range(4)
WAYS: Final = {
    **dict.fromkeys(("input", "source", "hr", "col", "track", "param"), SKIP),
    **dict.fromkeys(("br", "img"), POINT),
    **dict.fromkeys(SILENT, SKIP),
    **dict.fromkeys(INLINE, PASS),
    **dict.fromkeys(MARKED, MARK),
}
"""What is done with an element; those that are not here are containers."""

NAV, HEADER, FOOTER, ASIDE, MAIN, ARTICLE, FORM, TABLE, LIST, TERMS, SECTION, FIGURE = (1 << bit for bit in range(12))
QUOTE, DETAILS, VERBATIM, BUTTON, ITEM, DIALOG, LABEL, HEADING, UNSEEN, MUTE = (1 << bit for bit in range(12, 22))
SEMANTICS: Final = 22

BY_TAG: Final = {
    "nav": NAV,
    "header": HEADER,
    "footer": FOOTER,
    "aside": ASIDE,
    "main": MAIN,
    "article": ARTICLE,
    "form": FORM,
    "table": TABLE,
    "ul": LIST,
    "ol": LIST,
    "dl": TERMS,
    "section": SECTION,
    "figure": FIGURE,
    "blockquote": QUOTE,
    "details": DETAILS,
    "pre": VERBATIM,
    "button": BUTTON,
    "li": ITEM,
    "dialog": DIALOG,
    "fieldset": LABEL,
    **{f"h{level}": HEADING for level in range(1, 7)},
}
BY_ROLE: Final = {
    "navigation": NAV,
    "menu": NAV,
    "menubar": NAV,
    "menuitem": NAV,
    "tablist": NAV,
    "banner": HEADER,
    "contentinfo": FOOTER,
    "complementary": ASIDE,
    "main": MAIN,
    "article": ARTICLE,
    "form": FORM,
    "search": FORM,
    "list": LIST,
    "listitem": ITEM,
    "button": BUTTON,
    "dialog": DIALOG,
    "alertdialog": DIALOG,
    "heading": HEADING,
}

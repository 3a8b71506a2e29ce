"""The usual meaning of tags, roles and the words in class names and ids: tables.

A name such as `siteNav footer-links` is split into words. Each word belongs to some of the groups below, and may have a
learned worth: the usual share of content under that name.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

# Tags; patterns and names in the markup of forums, of code and of embedded pages.
MARKUP: Final[dict[str, str]] = json.loads(Path(__file__).with_name("markup.json").read_text("utf-8"))
INLINE: Final = frozenset(MARKUP["inline"].split())
SILENT: Final = frozenset(MARKUP["silent"].split())
EMBEDS: Final = frozenset(MARKUP["embeds"].split())
HEADINGS: Final = frozenset(f"h{level}" for level in range(1, 7))
# Inline elements whose beginning and end are recorded.
MARKED: Final = frozenset(MARKUP["marked"].split())
CODE: Final = frozenset(("code", "kbd", "samp"))

PASS, MARK, POINT, SKIP = range(4)
WAYS: Final = {  # The treatment of elements; tags that are not listed are containers.
    **dict.fromkeys(("input", "source", "hr", "col", "track", "param", "rp"), SKIP),
    **dict.fromkeys(SILENT, SKIP),
    **dict.fromkeys(("br", "img", *EMBEDS), POINT),
    **dict.fromkeys(INLINE, PASS),
    **dict.fromkeys(MARKED, MARK),
}

NAV, HEADER, FOOTER, ASIDE, MAIN, ARTICLE, FORM, TABLE, LIST, TERMS, SECTION, FIGURE = (1 << bit for bit in range(12))
QUOTE, DETAILS, VERBATIM, BUTTON, ITEM, DIALOG, LABEL, HEADING, UNSEEN, MUTE = (1 << bit for bit in range(12, 22))

BY_TAG: Final = {
    "nav": NAV, "header": HEADER, "footer": FOOTER, "aside": ASIDE, "main": MAIN, "article": ARTICLE, "form": FORM,
    "table": TABLE, "ul": LIST, "ol": LIST, "dl": TERMS, "section": SECTION, "figure": FIGURE, "blockquote": QUOTE,
    "details": DETAILS, "pre": VERBATIM, "button": BUTTON, "li": ITEM, "dialog": DIALOG, "fieldset": LABEL,
    **dict.fromkeys(HEADINGS, HEADING),
}  # fmt: skip
BY_ROLE: Final = {
    "navigation": NAV, "menu": NAV, "menubar": NAV, "menuitem": NAV, "tablist": NAV, "banner": HEADER,
    "contentinfo": FOOTER, "complementary": ASIDE, "main": MAIN, "article": ARTICLE, "form": FORM, "search": FORM,
    "list": LIST, "listitem": ITEM, "button": BUTTON, "dialog": DIALOG, "alertdialog": DIALOG, "heading": HEADING,
}  # fmt: skip

SEMANTICS: Final = {  # Those that are features of a block, with their names.
    "nav": NAV, "header": HEADER, "footer": FOOTER, "aside": ASIDE, "main": MAIN, "form": FORM, "list": LIST,
    "item": ITEM, "dialog": DIALOG, "heading": HEADING, "unseen": UNSEEN,
}  # fmt: skip

# The groups of words in class names and ids, with the pattern of each. The learned model knows them by their order.
GROUPS: Final = tuple[tuple[str, str], ...](
    json.loads(Path(__file__).with_name("names.json").read_text("utf-8")).items()
)
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{3,}")
_PATTERNS = tuple(re.compile(pattern) for _, pattern in GROUPS)
# Most words belong to no group, which one search shows faster than one for each group.
_ANY = re.compile("|".join(pattern for _, pattern in GROUPS))


@lru_cache(50_000)
def _groups(word: str) -> int:
    if not _ANY.search(word):
        return 0
    return sum([1 << number for number, pattern in enumerate(_PATTERNS) if pattern.search(word)])


def words_of(name: str) -> list[str]:
    """Returns the words of a class list or an id in lower case; camel case is split."""
    found: list[str] = _WORD.findall(name)
    return found if name.islower() else [word.lower() for word in found]


def groups_of(words: Iterable[str]) -> int:
    """Returns a bit for each group that one of `words` belongs to."""
    found = 0
    for word in words:
        found |= _groups(word)
    return found

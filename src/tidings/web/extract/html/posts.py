"""The posts of a discussion: their authors, and the words that they quote from each other.

Posts are repeated containers whose names say so, such as `message`, `comment` or `answer`. The extraction may leave out
the column with the author's name, so the name is found again in the post, and written above what is kept of it: the
words of one person must not read as those of another.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from tidings.web.extract.html.blocks import Blocks, Node, PageBlock
from tidings.web.extract.html.tree import Element
from tidings.web.extract.html.vocabulary import GROUPS, MARKUP

_SORTS: Final = [name for name, _ in GROUPS]
_COMMENT: Final = 1 << _SORTS.index("comment")
_POST: Final = 1 << _SORTS.index("post") | _COMMENT
_QUOTE: Final = re.compile(MARKUP["quote"], re.IGNORECASE)
_AUTHOR: Final = re.compile(MARKUP["author"], re.IGNORECASE)
_ITEMS: Final = re.compile(r"schema\.org/(?:Comment|Answer|Question|DiscussionForumPosting|UserComments)")
_LONGEST: Final = 60  # Characters of a name.
_WORDS: Final = 5
_SAYS: Final = re.compile(MARKUP["says"], re.IGNORECASE)
_LEAST_COMMENT: Final = 4  # Words; fewer are a button or a date.


def is_quote(node: Node) -> bool:
    """Returns whether a container holds words of somebody else."""
    if node.tag == "blockquote":  # That of vBulletin 4 holds a whole post.
        return "postcontent" not in (node.element.get("class") or "")
    names = node.element.get("class") if node.names else None
    if node.tag == "td" and names:  # vBulletin 3 has only the words.
        return "".join(islice(node.element.itertext(), 3)).lstrip().startswith("Originally Posted by")
    return bool(names) and node.tag in {"div", "aside", "section"} and _QUOTE.search(names or "") is not None


def comments_of(page: Blocks) -> set[int]:
    """Returns the numbers of the blocks in containers that are named as comments and are not around the headline."""
    headline = next((block.node for block in page.blocks if block.node.tag == "h1"), page.root)
    around = set(headline.upwards()) - {page.root}
    inside: set[Node] = set()
    for node in page.nodes:  # Parents come before their children.
        if node.parent in inside or (node.groups & _COMMENT and node not in around):
            inside.add(node)
    return {number for number, block in enumerate(page.blocks) if block.node in inside}


def is_comment(block: PageBlock) -> bool:
    """Returns whether a block in the comments is what somebody wrote, and not a button, a date or a form."""
    return block.words >= _LEAST_COMMENT and block.node.tag not in {"button", "label", "form"}


class Posts:
    """Knows the post of each block, and the author of each post."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        alike = Counter((node.tag, *node.names) for node in nodes if node.words)
        self._posts: set[Node] = set()
        for node in nodes:
            item = _ITEMS.search(node.element.get("itemtype") or "") is not None
            named = bool(node.groups & _POST) or "comtr" in node.names
            named = named and node.tag in {"div", "article", "li", "section", "tr", "table", "td"}
            often = alike[(node.tag, *node.names)] > 1
            if node.words and (item or (named and often) or _stated_author(node.element)):
                self._posts.add(node)
        self._authors: dict[Node, str] = {}
        self._last: Node | None = None

    def author_before(self, block: PageBlock) -> str:
        """Returns the author to be named before a block: that of a post that begins with it; else nothing."""
        post = next(filter(self._author_of, block.node.upwards()), None)
        if post is None or post is self._last:
            return ""
        name, last, self._last = self._authors[post], self._last, post
        if last is not None and post in last.upwards() and self._authors[last] == name:
            return ""  # The head of the post was a container of its own.
        return "" if name.lower() in block.text[: 2 * _LONGEST].lower() else name

    def _author_of(self, node: Node) -> str:
        if node in self._posts and node not in self._authors:
            self._authors[node] = _author(node.element)
        return self._authors.get(node, "")


def _stated_author(post: Element) -> str:
    return post.get("data-author") or post.get("author") or ""


def _author(post: Element) -> str:
    """Returns the first of the texts that may be the name of the author, and are like one; none of a quote."""
    likely = [_stated_author(post)]
    for one in post.iter("*"):
        names = " ".join(one.get(key) or "" for key in ("class", "itemprop", "rel")) if one is not post else ""
        if _QUOTE.search(names):
            break  # A quote names the author that it quotes.
        if _AUTHOR.search(names):
            inner = next((link for link in one.iter("a") if "".join(link.itertext()).strip()), one)
            likely += ("".join(inner.itertext()), "".join(one.itertext()))
    for said in likely:
        name = _SAYS.sub("", " ".join(said.split()))
        if name and len(name) <= _LONGEST and len(name.split()) <= _WORDS and any(map(str.isalpha, name)):
            return name
    return ""

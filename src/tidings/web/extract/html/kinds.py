"""The features that tell the kind of a page: its URL, its metadata, its words and the shape of its tree.

They are cheap sums over the parsed page. A small model turns them into a probability for each kind. All probabilities,
not only the best kind, are features of the blocks: a page that may be a listing or a service is treated as both.
"""

import math
import re
from collections import Counter
from typing import Final
from urllib.parse import urlsplit

from tidings.web.extract.html.features import DATE, PRICE
from tidings.web.extract.html.page import HtmlPage, types_of
from tidings.web.extract.html.vocabulary import GROUPS

KINDS: Final = ("article", "service", "forum", "product", "collection", "listing", "documentation")

_ADDRESSES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"forum|thread|/t/|topic|discuss|community|board|questions/|/q/|answers|/comments/|exchange|talk",
        r"/products?/|/p/|/dp/|/itm/|/item|shop|store|sku|/buy|-p-|/pd/",
        r"/collections?(?:/|$)|/c/|categor|/shop/?|/browse|/catalog|/brands?/|/s/|products?/?$",
        (
            r"docs?\.|/docs?(?:/|$)|/reference|/manual|/guide|/api|developer|readthedocs|wiki|/man/|/help|/learn|tutorial"
            r"|/kb|support|/latest/|github\.io"
        ),
        r"/blog|/news|/article|/post|/story|/20\d\d/|/insight|/magazine|-vs-|how-to|what-is|guide|tips|best-|top-",
        r"/services?(?:/|$)|solution|/about|pricing|/industr|consult|agency|/feature|/platform|contact|company",
        (
            r"/jobs?|/list|director|/events?|/search|/tags?/|/find|/archive|/careers|resources|/page/|/news/?$|/blog/?$"
            r"|/projects|/team|/courses|/rentals|/top|/best"
        ),
    )
)
_OPEN_GRAPH: Final = ("article", "product", "website", "blog", "profile", "video", "object")
_TYPES_WRITTEN = (
    "Article NewsArticle BlogPosting Product Offer AggregateRating Review ItemList CollectionPage "
    "DiscussionForumPosting QAPage Question Answer FAQPage TechArticle WebPage Organization LocalBusiness "
    "Service BreadcrumbList Event JobPosting Person WebSite Recipe Comment ListItem SoftwareApplication"
)
_TYPES: Final = tuple(_TYPES_WRITTEN.split())
_MICRODATA_WRITTEN = "Product Article BlogPosting Question Answer DiscussionForumPosting ListItem Offer Review"
_MICRODATA: Final = tuple(_MICRODATA_WRITTEN.split())
_MAKERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"discourse|vbulletin|xenforo|phpbb|mybb|smf|flarum|invision|vanilla|nodebb|lithium|khoros",
        (
            r"sphinx|docusaurus|mkdocs|gitbook|hugo|jekyll|vuepress|vitepress|mdbook|doxygen|javadoc|readthedocs|docutils"
            r"|antora|rustdoc|mintlify|readme"
        ),
        r"shopify|woocommerce|magento|bigcommerce|prestashop",
        r"product",
        r"collection|categ|archive|list",
        r"single|post|article",
        r"page-template|landing|home",
        r"topic|thread|forum|question",
        r"doc|wiki|manual",
    )
)
_TAGS_WRITTEN = "p li h1 h2 h3 h4 pre table tr article section form button dl blockquote main details figure nav"
_TAGS: Final = tuple(_TAGS_WRITTEN.split())
_PHRASES_WRITTEN = (
    "reply|quote|add to cart|add to bag|reviews|posted|sort by|filter|joined|views|read more|min read|published|"
    "copy|contact us|get started|learn more|our services|answers|comments|shop|price|in stock|version|function|"
    "example|results|apply|faq|upvote|we |our |you |i |my "
)
_PHRASES: Final = tuple(_PHRASES_WRITTEN.split("|"))


def page_features(page: HtmlPage) -> list[float]:
    """Returns the features of a page, always the same number of them."""
    return [*_of_url(page.url), *_of_metadata(page), *_of_shape(page), *_of_words(page)]


def _of_url(url: str) -> list[float]:
    parts = urlsplit(url)
    path = parts.path.strip("/")
    return [
        *(float(pattern.search(url) is not None) for pattern in _ADDRESSES),
        path.count("/") + 1 if path else 0,
        math.log1p(len(path)),
        path.count("-"),
        sum(map(str.isdigit, path)) / (len(path) + 1),
        float(bool(parts.query)),
    ]


def _of_metadata(page: HtmlPage) -> list[float]:
    metas = page.metas
    graph = metas.get("og:type", "").lower()
    types = Counter(name for one in page.data for name in types_of(one))
    items = Counter(item.rstrip("/").rpartition("/")[2] for _, item in page.blocks.noted["itemtype"])
    names = (one.get(key) or "" for one in (page.root, page.body) for key in ("class", "id"))
    maker = " ".join((*names, metas.get("generator", "")))
    return [
        *(float(graph.startswith(kind)) for kind in _OPEN_GRAPH),
        float(not graph),
        float("article:published_time" in metas),
        float("product:price:amount" in metas or "og:price:amount" in metas),
        *(min(types[name], 5) for name in _TYPES),
        *(min(items[name], 5) for name in _MICRODATA),
        *(float(pattern.search(maker) is not None) for pattern in _MAKERS),
    ]


def _of_shape(page: HtmlPage) -> list[float]:
    blocks, nodes, top = page.blocks.blocks, page.blocks.nodes, page.blocks.root
    words = top.words or 1
    sizes = sorted(block.words for block in blocks) or [0]
    tags = Counter([node.tag for node in nodes])
    named: Counter[int] = Counter()
    for mask, times in Counter([node.groups for node in nodes]).items():
        for bit in range(len(GROUPS)):
            if mask >> bit & 1:
                named[bit] += times
    alike: dict[tuple[int, str], list[int]] = {}
    for node in nodes:
        if node.words >= 5 and node.parent is not None:
            sums = alike.setdefault((id(node.parent), node.key), [0, 0, 0])
            sums[0] += node.words
            sums[1] += 1
            sums[2] += node.links
    held, times, links = max((sums for sums in alike.values() if sums[1] >= 4), default=(0, 0, 0))
    return [
        math.log1p(words),
        math.log1p(len(blocks)),
        words / (len(blocks) or 1),
        top.links / words,
        top.long / words,
        math.log1p(top.long),
        *(sizes[len(sizes) * tenth // 10] for tenth in (5, 8, 9)),
        *(math.log1p(tags[tag]) for tag in _TAGS),
        *(math.log1p(named[bit]) for bit in range(len(GROUPS))),
        held / words,
        math.log1p(times),
        links / (held or 1),
        math.log1p(held / (times or 1)),
    ]


def _of_words(page: HtmlPage) -> list[float]:
    # Two line ends, because a pattern may match one space.
    small = "\n\n".join([block.text for block in page.blocks.blocks if block.words < 12])
    text = " ".join([block.text for block in page.blocks.blocks]).lower()
    return [
        math.log1p(_lines_with(PRICE, small)),
        math.log1p(_lines_with(DATE, small)),
        *(math.log1p(text.count(phrase)) for phrase in _PHRASES),
    ]


def _lines_with(pattern: re.Pattern[str], text: str) -> int:
    found = at = 0
    while at >= 0 and (match := pattern.search(text, at)):
        found += 1
        at = text.find("\n", match.end())
    return found

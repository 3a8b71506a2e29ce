"""Text that a page carries as data for its scripts: forums that draw themselves, and descriptions in JSON-LD.

Two sources, each read only where the page shows next to nothing itself: the posts that Discourse puts beside its empty
page, and the bodies and descriptions that JSON-LD and meta tags give to search engines.
"""

import contextlib
import html
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from tidings.web.extract.page import Page

_LONGEST = 5_000_000
_BODIES = ("articleBody", "text", "reviewBody", "description")
_WORTH = 25
"""Words from which on a description is worth more than nothing."""


def discourse(page: Page) -> bytes | None:
    """The posts of a Discourse topic as HTML, from the data beside the page; None where there are none."""
    for _, said in page.blocks.noted["data-preloaded"]:
        posts = list(_posts(said))
        if posts:
            return f"<html><body>{''.join(posts)}</body></html>".encode()
    return None


def _posts(said: str) -> Iterator[str]:
    if len(said) > _LONGEST:
        return
    with contextlib.suppress(ValueError, RecursionError, AttributeError, TypeError):
        topics = cast("dict[str, str]", json.loads(said))
        for key, value in topics.items():
            if key.startswith("topic_"):
                topic: Any = json.loads(value)
                for post in topic["post_stream"]["posts"]:
                    name, when = html.escape(str(post.get("username", ""))), _when(str(post.get("created_at", "")))
                    yield f"<section><p>{name}</p><p>{when}</p><div>{post['cooked']}</div></section>"


def _when(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return ""
    return f"{moment:%B} {moment.day}, {moment.year}, {moment.hour % 12 or 12}:{moment:%M}{moment:%p}".replace(
        "AM", "am"
    ).replace("PM", "pm")


def described(page: Page) -> str | None:
    """What the page tells search engines that it says; None where that is too little to be of use."""
    found: dict[str, None] = {}
    for one in page.data:
        for key in _BODIES:
            value = one.get(key)
            if isinstance(value, str) and len(value.split()) >= _WORTH:
                found[_plain(value)] = None
                break
    if not found:
        for key in ("og:description", "description", "twitter:description"):
            value = page.metas.get(key, "")
            if len(value.split()) >= _WORTH:
                found[_plain(value)] = None
                break
    return "\n\n".join(found) or None


def _plain(text: str) -> str:
    lines = (" ".join(line.split()) for line in html.unescape(text).splitlines())
    return "\n".join(line for line in lines if line)

"""Simple CSS selectors of parts to remove from a page.

Supported: tags, `*`, `#id`, `.class`, `[attribute]` and `[attribute=value]` in any combination, descendants (a space),
children (`>`), and lists with commas. Anything else raises `BadSelector`, instead of silently matching nothing.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.web.extract.html.tree import Element

_STEP = re.compile(r"\s*(>)?\s*((?:[\w-]+|\*)?)((?:[#.][\w-]+|\[[\w-]+(?:=(?:\"[^\"']*\"|'[^\"']*'|[\w-]+))?\])*)")
_PART = re.compile(r"([#.])([\w-]+)|\[([\w-]+)(?:=[\"']?([^\"'\]]*)[\"']?)?\]")


class BadSelector(ValueError):
    """A selector is not supported."""

    def __init__(self, selector: str) -> None:
        hint = "use tags, #id, .class, [attribute], spaces and >"
        super().__init__(f"the selector {selector!r} is not supported: {hint}")
        self.selector = selector


def paths(selector: str) -> list[str]:
    """Returns an XPath for each of the selectors, which commas separate. Raises `BadSelector`."""
    return [_path(one) for one in selector.split(",")]


def remove(root: "Element", selectors: Iterable[str]) -> None:
    """Removes all elements that match one of the selectors from the tree."""
    for selector in selectors:
        for element in (element for path in paths(selector) for element in root.xpath(path)):
            from tidings.web.extract.html.tree import drop  # noqa: PLC0415 - selectors are also checked without lxml

            drop(element)


def _path(selector: str) -> str:
    """Returns the XPath of one selector without commas."""
    rest, path = selector.strip(), ""
    while rest:
        step = _STEP.match(rest)
        if step is None or not (step[2] or step[3]):
            raise BadSelector(selector)
        path += ("/" if step[1] and path else "//") + (step[2].lower() or "*")
        for mark, name, attribute, value in _PART.findall(step[3]):
            if mark == ".":
                path += f"[contains(concat(' ', normalize-space(@class), ' '), ' {name} ')]"
            else:
                path += (
                    f"[@id='{name}']"
                    if mark
                    else f"[@{attribute.lower()}='{value}']"
                    if value
                    else f"[@{attribute.lower()}]"
                )
        rest = rest[step.end() :]
        if rest and not rest[0].isspace() and rest[0] != ">":
            raise BadSelector(selector)
        rest = rest.strip()
    if not path:
        raise BadSelector(selector)
    return path

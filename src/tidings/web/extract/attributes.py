"""What the attributes of an element say: what it is called, what it is, and how well it is seen.

They are read once an element, in the one walk over a page: what other steps look for is noted on the way.
"""

from collections.abc import Sequence
from typing import Final

from tidings.web.extract.hiding import TOLD, UNREAD, Sight
from tidings.web.extract.names import groups_of, words_of
from tidings.web.extract.tags import BY_ROLE, MUTE, UNSEEN
from tidings.web.extract.tree import Element

_NAME, _CLASS, _ID, _ROLE, _STYLE, _HIDDEN, _MUTE, _NOTED = range(8)
_SORTS: Final = {
    **dict.fromkeys(("itemprop", "aria-label", "data-testid"), _NAME),
    "class": _CLASS,
    "id": _ID,
    "role": _ROLE,
    "style": _STYLE,
    "hidden": _HIDDEN,
    "aria-hidden": _MUTE,
    **dict.fromkeys(("itemtype", "rel", "data-preloaded"), _NOTED),
}
"""The attributes that say something; names come first."""

Said = tuple[str, int, int]
"""All the names of an element one behind the other, what it is, and its degree of hiding."""


class Attributes:
    """Reads the attributes of one page's elements."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._classes, self._ids = sight.classes, sight.ids
        self._named: dict[str, tuple[str, Sequence[str], int]] = {}
        self.noted: dict[str, list[tuple[Element, str]]] = {key: [] for key, sort in _SORTS.items() if sort == _NOTED}
        """The elements that have one of these attributes, and what it says."""

    def read(self, element: Element) -> Said:  # noqa: C901 - one pass, and many an attribute
        """Everything at once."""
        named = ""
        semantics = degree = 0
        for key, value in element.items():
            sort = _SORTS.get(key)
            if sort is None:
                continue
            found = 0
            if sort <= _ID:
                named = f"{named}{value} "
                if sort == _CLASS:
                    found = self._classes[value]
                elif sort == _ID and self._ids:
                    found = self._sight.of_id(value)
            elif sort == _NOTED:
                self.noted[key].append((element, value))
            elif sort == _ROLE:
                semantics |= BY_ROLE.get(value, 0)
            elif sort == _MUTE:
                if value == "true":
                    semantics |= MUTE
                    found = TOLD
            elif (found := UNREAD if sort == _HIDDEN else self._sight.styles[value]) == UNREAD:
                semantics |= UNSEEN
            if found > degree:  # noqa: PLR1730 - a call takes three times as long
                degree = found
        return named, semantics, degree

    def meaning(self, tag: str, named: str) -> tuple[str, Sequence[str], int]:
        """A key for all that have this tag and these names, the words of the names, and the groups they belong to."""
        key = tag + named
        known = self._named.get(key)
        if known is None:
            words = words_of(named)
            known = self._named[key] = (key, words, groups_of(words))  # pages repeat their names
        return known

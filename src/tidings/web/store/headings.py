"""Which headings of a markdown text a line stands under.

May import: nothing of Tidings.
"""

import re
from typing import Final

_HEADING: Final = re.compile(r"^ {0,3}(?:(#{1,6})[ \t]+([^\n]*)|(`{3,}|~{3,}))", re.MULTILINE)
_LONGEST: Final = 160
"""How much is shown of a line of headings."""


class Headings:
    """The headings of `text`, outside of code. They are looked for only as far down as somebody asks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = _HEADING.finditer(text)
        self._next = next(self._found, None)
        self._line = 0
        self._counted = 0
        self._fence = ""
        self._open: list[tuple[int, str]] = []

    def above(self, line: int) -> str:
        """The headings that `line` stands under, its own included: `Like > This`.

        Lines count from 0. Each question has to be about a line that is not above that of the question before.
        """
        while self._next is not None and self._at(self._next.start()) <= line:
            self._pass(self._next)
            self._next = next(self._found, None)
        path = " > ".join(title for _, title in self._open if title)
        return path if len(path) <= _LONGEST else f"{path[: _LONGEST - 1]}…"

    def _at(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted, place)
        self._counted = place
        return self._line

    def _pass(self, match: re.Match[str]) -> None:
        hashes, title, mark = match.groups()
        if mark:
            if not self._fence:
                self._fence = mark
            elif mark.startswith(self._fence):
                self._fence = ""
        elif not self._fence:
            while self._open and self._open[-1][0] >= len(hashes):
                self._open.pop()
            self._open.append((len(hashes), title.strip(" \t#")))

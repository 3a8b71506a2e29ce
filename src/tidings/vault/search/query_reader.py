"""Reading a query character by character: what the grammar is made of, and how it complains."""

import re

from tidings.vault.search.query_tree import SPECIAL

ANYWHERE = ""
"""Not inside of any operator's argument."""

_KEYWORD = re.compile(r'(OR|AND|NOT)(?=[\s()\]"]|\Z)')
_STRING = re.compile(r'"((?:\\.|[^"\\])*)"', re.DOTALL)
_KEY = re.compile(r'[^\]:"\[]*')


class BadQuery(ValueError):
    """A query that cannot be read. `position` counts from 1."""

    def __init__(self, position: int, cause: str, cure: str) -> None:
        super().__init__(f"{cause}; {cure}")
        self.position = position
        self.cause = cause
        self.cure = cure


class Reader:
    """A text, and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.inside = ANYWHERE
        """The operator whose argument is being read; `[` in the brackets of a property."""

    def bad(self, cause: str, cure: str, at: int | None = None) -> BadQuery:
        """An error at a place, which takes the place of `{}` in the cause."""
        position = (self.at if at is None else at) + 1
        return BadQuery(position, cause.replace("{}", str(position)), cure)

    def peek(self, *keywords: str) -> bool:
        """Whether one of these keywords comes next."""
        found = _KEYWORD.match(self.text, self.at)
        return found is not None and found[1] in keywords

    def keyword(self, keyword: str) -> bool:
        """Read a keyword, if it comes next."""
        if not self.peek(keyword):
            return False
        self.at += len(keyword)
        return True

    def ended(self) -> bool:
        """Skip spaces; whether what is being read ends here."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        closers = ")]" if self.inside == "[" else ")"
        return self.at == len(self.text) or self.text[self.at] in closers

    def string(self) -> str:
        """Read what is in quotation marks."""
        found = _STRING.match(self.text, self.at)
        if found is None:
            cure = r"add one at the end, or write \" for the character itself"
            raise self.bad("The quotation mark at {} is never closed", cure)
        self.at = found.end()
        return re.sub(r'\\(["\\])', r"\1", found[1])

    def word(self) -> str:
        """Read up to a space or to what ends a word."""
        characters: list[str] = []
        stops = '()"]' if self.inside == "[" else '()"'
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in set(SPECIAL):
                self.at += 1
                character = self.text[self.at]
            elif character.isspace() or character in stops:
                break
            characters.append(character)
            self.at += 1
        return "".join(characters)

    def value(self) -> str:
        """Read a word, or what is in quotation marks."""
        return self.string() if self.text.startswith('"', self.at) else self.word()

    def key(self) -> str:
        """Read the key of a property, as a value or up to its colon or bracket."""
        if self.text.startswith('"', self.at):
            return self.string()
        found = _KEY.match(self.text, self.at)
        key = found[0] if found else ""
        self.at += len(key)
        return key

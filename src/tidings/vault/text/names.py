"""When two names are the same."""

import unicodedata


def key(text: str) -> str:
    """A name for comparing: upper and lower case are the same, and so are the ways to write an accent."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())

"""The closest known names, as a list and as a sentence for an error message: empty, or with a space before it.

f"There is no tool {name!r}.{did_you_mean(name, tools) or there_are(tools)}"
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from tidings._kit.text import joined, listed

_LONGEST: Final = 200  # Longer names are not compared: it takes too long, and nobody mistypes them


def closest(
    name: str,
    known: Iterable[str],
    *,
    most: int = 1,
    cutoff: float = 0.6,
    key: Callable[[str], str] = str.casefold,
    among: int = 2_000,
) -> list[str]:
    """Returns at most `most` known names (of the first `among`) that are spelled nearly like `name`, the closest first.

    `cutoff`, from 0 (anything) to 1 (equal), is how similar they must be, in the form that `key` makes of a name.
    """
    forms = {key(each): each for each in islice(known, among) if len(each) <= _LONGEST}
    return [forms[form] for form in difflib.get_close_matches(key(name[:_LONGEST]), forms, n=most, cutoff=cutoff)]


def letters(name: str) -> str:
    """Returns the letters and digits of a name without regard to case, so that `ifMatch` is equal to `if_match`."""
    return "".join(filter(str.isalnum, name)).casefold()


def question(names: Sequence[str], show: Callable[[str], str] = repr) -> str:
    """Returns " Did you mean 'a' or 'b'?", or an empty text for no names."""
    return f" Did you mean {joined([show(name) for name in names], 'or')}?" if names else ""


def did_you_mean(name: str, known: Iterable[str], *, show: Callable[[str], str] = repr, **limits: Any) -> str:
    """Returns `question` of the `closest` known names within these `limits`: empty if none is close."""
    return question(closest(name, known, **limits), show)


def there_are(names: Iterable[str], *, most: int | None = 12) -> str:
    """Returns " There are: a, b and 3 more.", or " There are none."; with `most=None` all names."""
    shown = listed(names, most)
    return f" There are: {shown}." if shown else " There are none."

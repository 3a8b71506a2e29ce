"""Which part of a note is shown: by lines, and by how much room there is. What is left out is always named.

May import: `parts`.
"""

import re
from typing import Final, NamedTuple

from tidings.vault.files.parts import EditRefused, line_starts

CHARACTERS_PER_TOKEN: Final = 4
"""A rule of thumb for prose; code has fewer, other scripts too."""


class Lines(NamedTuple):
    """A range of lines, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.last > self.first else f"{self.first}"


class Excerpt(NamedTuple):
    """A part of a text."""

    text: str
    lines: Lines | None
    """Which lines it is; None for nothing at all."""
    total: int
    """How many lines the whole text has."""
    left_out: str
    """What did not fit, and how to get it; empty if everything did."""


def parse_lines(text: str, total: int) -> Lines:
    """`12`, `12-20`, `12-` or `-20`, of a text that has `total` lines.

    Raises:
        EditRefused: It is none of them, or begins after the end.
    """
    found = re.fullmatch(r"\s*([0-9]{0,9})\s*(-?)\s*([0-9]{0,9})\s*", text)
    if found is None or not (found[1] or found[3]) or (found[1] and found[3] and not found[2]):
        raise EditRefused(f"{text!r} is no range of lines. Write one such as '12', '12-20', '12-' or '-20'.")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else (total if found[2] else first)
    if first > total:
        raise EditRefused(f"There is no line {first}: the note has {total:,}.")
    if first < 1 or last < first:
        raise EditRefused(f"{text!r} is no range of lines: they count from 1, and the smaller number comes first.")
    return Lines(first, min(last, total))


def excerpt(text: str, chosen: str, room: int) -> Excerpt:
    """As much as fits into `room` characters of the chosen lines; an empty text chooses all.

    Raises:
        EditRefused: There are no such lines.
    """
    starts = line_starts(text)
    total = len(starts) - 1
    first, last = parse_lines(chosen, total) if chosen else Lines(1, total)
    if not total:
        return Excerpt("", None, 0, "")
    begin, end = starts[first - 1], starts[last]
    if end - begin <= room:
        return Excerpt(text[begin:end], Lines(first, last), total, "")
    fits = first - 1
    while starts[fits + 1] - begin <= room:
        fits += 1
    if fits < first:
        whole = starts[first] - begin
        left = (
            f"Line {first} has {whole:,} characters: the first {room:,} are shown. Ask with max_tokens={tokens(whole)}."
        )
        return Excerpt(text[begin : begin + room], Lines(first, first), total, left)
    rest = f"{fits + 1}-" if last == total else str(Lines(fits + 1, last))
    left = (
        f"Lines {Lines(fits + 1, last)} are left out, about {tokens(end - starts[fits]):,} tokens. "
        f"Ask with lines='{rest}'."
    )
    return Excerpt(text[begin : starts[fits]], Lines(first, fits), total, left)


def tokens(characters: int) -> int:
    """About how many tokens so many characters are."""
    return -(-characters // CHARACTERS_PER_TOKEN)

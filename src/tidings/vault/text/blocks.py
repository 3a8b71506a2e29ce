"""Blocks that links can point at: a paragraph, an item of a list, or a whole list, table, quote or piece of code.

The id stands at the end of its paragraph or item, or on a line of its own after the block.
"""

import re

from tidings.vault.text.model import Block

_ID = re.compile(r"\^([A-Za-z0-9-]+)[ \t]*\r?(?=\n|\Z)")
_STARTS_BLOCK = re.compile(r"[ \t>]*+(?:\r?(?:\n|\Z)|(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t]|\0|\|)")
_ITEM = re.compile(r"[ \t>]*+(?:[-*+]|\d{1,9}[.)])[ \t]")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t]")
_BLANK = re.compile(r"[ \t>]*+\r?(?:\n|\Z)")


def find_blocks(page: str, code: list[tuple[int, int]], shift: int, line: int) -> list[Block]:
    """The blocks with an id, in the order of the ids."""
    blocks: list[Block] = []
    ends = {end + 1: start + 1 for start, end in code}
    seen = 1
    for found in _ID.finditer(page):
        position = found.start()
        if not page[position - 1].isspace() or not _STARTS_BLOCK.match(page, found.end() + 1):
            continue
        line += page.count("\n", seen, position)
        seen = position
        line_start = page.rfind("\n", 0, position) + 1
        if page[line_start:position].strip(" \t>"):
            start, end = _paragraph(page, line_start), position
        else:
            start, end = _above(page, line_start, ends)
        end = start + len(page[start:end].rstrip())
        blocks.append(Block(found[1], line, start + shift, end + shift))
    return blocks


def _paragraph(page: str, line_start: int) -> int:
    """Where the paragraph or the item of a list begins that the line belongs to."""
    while line_start > 1 and not _ITEM.match(page, line_start) and not _HEADING.match(page, line_start):
        above = page.rfind("\n", 0, line_start - 1) + 1
        if _BLANK.match(page, above) or _HEADING.match(page, above):
            break
        line_start = above
    return line_start


def _above(page: str, line_start: int, code: dict[int, int]) -> tuple[int, int]:
    """The block that ends before the line, whole."""
    end = line_start - 1
    while end > 0 and _BLANK.match(page, page.rfind("\n", 0, end) + 1):
        end = page.rfind("\n", 0, end)
    if end <= 0:
        return line_start, line_start
    if end in code:
        return code[end], end
    start = page.rfind("\n", 0, end) + 1
    while start > 1:
        above = page.rfind("\n", 0, start - 1) + 1
        if _BLANK.match(page, above):
            break
        start = above
    return start, end

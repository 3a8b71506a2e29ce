"""How two versions of a text differ, for people and agents to read: never long, never slow.

May import: nothing of Tidings.
"""

import re
from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice

_LINES = 120
"""How many lines of a diff are shown."""
_WIDTH = 400
"""How many characters of a line are shown."""
_COMPARED = 1_500
"""How many lines of each side are compared one by one: beyond that it takes longer than anyone waits."""


def diff(before: str, after: str, path: str) -> str:
    """A unified diff; empty if both are the same. Says so where it leaves something out."""
    old, new = _split(before), _split(after)
    if before == after:
        return ""
    if old == new:
        return f"Only the line endings of {path} differ."
    start = _common(iter(old), iter(new), min(len(old), len(new)))
    end = _common(reversed(old), reversed(new), min(len(old), len(new)) - start)
    from_, skipped = max(start - 3, 0), max(end - 3, 0)
    old, new = old[from_ : len(old) - skipped], new[from_ : len(new) - skipped]
    if max(len(old), len(new)) > _COMPARED:
        return f"{path} differs from line {start + 1} on: {len(old)} lines there, {len(new)} here; too many to show."
    found = unified_diff(old, new, path, path, lineterm="")
    shown = [_shift(line, from_) for line in found]
    more = [f"… {len(shown) - _LINES} more lines"] if len(shown) > _LINES else []
    return "\n".join([*(line[:_WIDTH] for line in islice(shown, _LINES)), *more])


def _split(text: str) -> list[str]:
    lines = re.split(r"\r?\n", text)
    if lines[-1]:
        lines[-1] += "  (no line ending)"  # Else a missing one could not be seen.
        return lines
    return lines[:-1]


def _common(one: Iterator[str], other: Iterator[str], most: int) -> int:
    count = 0
    for left, right in islice(zip(one, other, strict=False), most):
        if left != right:
            break
        count += 1
    return count


def _shift(line: str, by: int) -> str:
    """A header of a hunk counts from the beginning of the text, not of what was compared."""
    match = re.fullmatch(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@", line)
    if not match:
        return line
    return f"@@ -{int(match[1]) + by}{match[2] or ''} +{int(match[3]) + by}{match[4] or ''} @@"

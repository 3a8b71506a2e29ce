"""What a summary left out, told truthfully: how much, of which kinds, and of which sections everything."""

from collections import Counter
from collections.abc import Collection

from tidings.web.packets.document import Document
from tidings.web.packets.sections import shown
from tidings.web.packets.tokens import estimate

_NAMES = {
    "paragraph": ("sentence", "sentences"),
    "quote": ("sentence of quotes", "sentences of quotes"),
    "list": ("list item", "list items"),
    "table": ("table row", "table rows"),
    "code": ("code block", "code blocks"),
}


def omissions(text: Document, kept: Collection[int], budget: int) -> list[str]:
    """One sentence each, within `budget` tokens as far as that is possible: the count is always told."""
    left = [one for number, one in enumerate(text.sentences) if number not in kept]
    if not left:
        return _unread(text)
    counts = Counter(one.kind for one in left)
    told = [f"Left out: {', '.join(_counted(count, *_NAMES[kind]) for kind, count in counts.most_common())}."]
    told += _unread(text)
    totals = Counter(one.section for one in text.sentences)
    gone = Counter(one.section for one in left)
    partly = sum(1 for section, count in gone.items() if count < totals[section])
    wholly = [section for section in sorted(gone) if gone[section] == totals[section]]
    if partly:
        told.append(f"Parts are missing from {_counted(partly, 'section', 'sections')}.")
    unnamed = 0
    for section in wholly:
        line = f"Nothing below “{shown(text.paths[section])}” is kept."
        if not text.paths[section]:
            line = "Nothing above the first heading is kept."
        # Room is kept for the line that counts the rest.
        if estimate("\n".join([*told, line])) > budget - 15:
            unnamed = len(wholly) - wholly.index(section)
            break
        told.append(line)
    if unnamed:
        told.append(f"Nothing of {_counted(unnamed, 'further section', 'further sections')} is kept.")
    return told


def _unread(text: Document) -> list[str]:
    return [f"The last {text.unread:,} characters were too many to be looked at."] if text.unread else []


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"

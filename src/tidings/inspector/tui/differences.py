"""What changed between two versions of a content, as a page: lines with their numbers, the changed words marked."""

from typing import Any

from tidings.inspector.tui.contents import Words


def diff_page(before: Any, after: Any) -> Any:
    """The lines that differ, with those around them."""
    return Words([(f"{before.seq} → {after.seq}", "soft")])

"""What changed between two versions, as the page shows it."""

from typing import Any

from tidings.inspector.diffs import Diff
from tidings.inspector.patches import change_shown
from tidings.inspector.view_items import ContentVersion


def difference(old: ContentVersion, new: ContentVersion) -> dict[str, Any]:
    """What changed from one version to another."""
    return shown_diff(change_shown(old, new))


def shown_diff(diff: Diff) -> dict[str, Any]:
    """A difference as JSON."""
    return {
        "hunks": [
            {
                "title": hunk.title,
                "lines": [
                    {
                        "mark": line.sign,
                        "old": line.old,
                        "new": line.new,
                        "words": [{"text": piece.text, "changed": piece.changed} for piece in line.pieces],
                    }
                    for line in hunk.lines
                ],
            }
            for hunk in diff.hunks
        ],
        "added": diff.added,
        "removed": diff.removed,
        "cut": diff.cut,
        "note": diff.note,
        "words": diff.words,
    }

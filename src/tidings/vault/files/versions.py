"""Whether a file is still the version that somebody has read; and if it is not, what is different.

May import: `content`, `diffs`, `texts`, `write_errors`.
"""

import re
from collections.abc import Callable
from typing import Final

from tidings.vault.files.content import Content
from tidings.vault.files.diffs import diff
from tidings.vault.files.texts import Texts
from tidings.vault.files.write_errors import BadVersion, Conflict

_SHORT: Final = 2_000
"""How many characters a text may have to be shown as a whole."""


def check_version(
    texts: Texts, path: str, if_match: str | None, now: Content | None, edit: Callable[[str], str] | None = None
) -> None:
    """Refuse to touch a file that is not the version the caller has read.

    Args:
        texts: What callers have read.
        path: Of the file.
        if_match: The version that the caller gives; None if any will do.
        now: What the file holds; None if it is not there.
        edit: What the caller would have made of its text.

    Raises:
        BadVersion: What was given cannot be a version.
        Conflict: The file is another version.
    """
    if if_match is None or (now is not None and now.version == if_match):
        return
    if not re.fullmatch("[0-9a-f]{16}", if_match):
        raise BadVersion(
            f"{if_match[:80]!r} is no version: one has 16 digits, 0 to 9 and a to f. Give the version that `read`, "
            "`info` or a write of the note has told, or leave out if_match."
        )
    if now is None:
        raise Conflict(path, if_match, None)
    details = [
        _since(texts.get(if_match), path, if_match, now.text),
        *([_effect(edit, path, now.text)] if edit else []),
    ]
    raise Conflict(path, if_match, now.version, "" if now.problem else "\n".join(details))


def _since(read: str | None, path: str, version: str, now: str) -> str:
    """What has changed since the caller read it."""
    if read is not None:
        return f"What changed since you read it:\n{diff(read, now, path) or 'Only how it is encoded.'}"
    unknown = f"What it said in version {version} is not known any more."
    return f"{unknown} This is what it says now:\n{now}" if len(now) <= _SHORT else f"{unknown} Read it again."


def _effect(edit: Callable[[str], str], path: str, now: str) -> str:
    """What the caller's change would do to it, as it is now."""
    try:
        wanted = edit(now)
    except ValueError as error:  # What was meant for another text need not fit this one.
        return f"Your change cannot be made to it as it is now: {error}"
    changes = diff(now, wanted, path)
    return f"What your change would do to it now:\n{changes}" if changes else "It says already what you wanted it to."

"""Names that programs give to files which they are still writing, or keep for themselves: those are not served.

Whoever watches a vault would see them come and go beside the notes they belong to. A copy that a sync client made of
a note because two people wrote it (`Plan (conflicted copy).md`, `Plan.sync-conflict-….md`) is somebody's text, and is
served. So is every note whose name only resembles one of these, as `~draft.md`.

May import: nothing of Tidings.
"""

import re

# What begins with a dot is hidden anyway: `.~lock.…#` of LibreOffice, `.….swp` of Vim, `.syncthing.….tmp`,
# `.stfolder`, `.dropbox…`, `.….icloud`, the `.~…` of Nextcloud.
_ENDINGS = (
    r"\.tmp",  # most programs that write a file aside and then give it its name; `~syncthing~….tmp`
    r"\.tmp\.[0-9.]+",  # the same, with the number of a process or a time
    r"~(?<=[^/]~)",  # Emacs, Vim, gedit, Kate: the text before the last change
    r"\.sw[nop]",  # Vim, while a file is open
    r"\.part",  # Firefox and others: a download
    r"\.partial",  # Internet Explorer, rclone: a download
    r"\.crdownload",  # Chrome and its kin: a download
    r"\.filepart",  # Nextcloud, WinSCP: a transfer
    r"\.!sync",  # Resilio Sync: a transfer
    r"\.icloud",  # iCloud: stands for a file that is not on this disk
    r"\.sb-[0-9a-f]{8}-\w{6}",  # macOS: the folder in which a document is saved
)
_NAMES = (
    r"~\$[^/]+",  # Microsoft Office, while a document is open
    r"\#[^/]+\#",  # Emacs, between two saves
    r"4913",  # Vim, to try whether it may write in a folder
)

# Two, because a search for what begins with a dot or `~` is several times as quick as one for all of them.
_ENDING = re.compile(rf"(?:{'|'.join(_ENDINGS)})(?:/|\Z)", re.IGNORECASE)
_NAME = re.compile(rf"(?:\A|/)(?:{'|'.join(_NAMES)})(?:/|\Z)")


def is_scratch(path: str) -> bool:
    """Whether a file is none that is meant to be read, by its name or by that of a folder on the way to it."""
    return _ENDING.search(path) is not None or _NAME.search(path) is not None

"""Which texts can be the path of something in a vault, and why the others cannot.

Two kinds of rules. What could mean a place outside the vault, or something hidden, is refused always. What is merely
unwise (a name that Windows or a phone cannot hold, characters that nobody sees) is refused for names that do not
exist yet: who has such a file wants to read it.

May import: `scratch`.
"""

import os
import re
import unicodedata

from tidings.vault.files.scratch import is_scratch

_ON_WINDOWS = os.name == "nt"

_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
"""Characters without a shape of their own; some file systems take names with and without them for the same."""

_IMPOSSIBLE = re.compile(
    rf"""
      [\x00-\x1f\x7f-\x9f\\\ud800-\udfff]     # control characters, backslashes, bytes that are no text
    | (?:^|/)[{_UNSEEN}]*(?:\.|/|$)           # empty, '.', '..', hidden; a slash at either end
    | ^[A-Za-z]:(?:/|$)                       # a drive
    """,
    re.VERBOSE,
)

_UNWISE_UNSEEN = re.compile(r"[\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]")
_JOINERS = re.compile(r"(?:^|[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?:$|[\x00-\x7f])")
"""Joiners belong into emoji and some scripts; next to ASCII they only hide."""

_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(?:\..*)?", re.IGNORECASE | re.DOTALL
)
_NOT_ON_WINDOWS = re.compile(r'[:*?"<>|]')


class BadPath(ValueError):
    """A text is not the path of something in the vault. Says why, and what to write instead."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason} {cure}")
        self.reason = reason
        self.cure = cure


def is_possible(path: str) -> bool:
    """Whether something that is served can have this path."""
    if _IMPOSSIBLE.search(path) is not None or is_scratch(path):
        return False
    return not (_ON_WINDOWS and _unwise_on_windows(path))


def check_possible(path: str) -> None:
    """Refuse what could mean a place outside the vault, or something hidden.

    Raises:
        BadPath: It could.
    """
    if is_possible(path):
        return
    shown = shorten(path)
    if not path:
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    if "\\" in path:
        raise BadPath(f"The path {shown} holds a backslash.", "Write '/' between folders.")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise BadPath(
            f"The path {shown} is absolute.", "Give it from the vault's own folder, such as 'Projects/Plan.md'."
        )
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", path):
        raise BadPath(f"The path {shown} holds control characters.", "Leave them out.")
    for segment in path.split("/"):
        _check_segment(segment, shown)
        check_wise(segment)  # On Windows, where what is unwise elsewhere is impossible.


def _check_segment(segment: str, shown: str) -> None:
    seen = re.sub(f"[{_UNSEEN}]", "", segment)
    if not seen:
        raise BadPath(f"The path {shown} has an empty name.", "Write one '/' between folders and none at the end.")
    if not seen.strip("."):
        raise BadPath(f"The path {shown} holds {segment!r}.", "Name each folder; '.' and '..' are not followed.")
    if seen.startswith("."):
        raise BadPath(
            f"{segment!r} in the path {shown} is hidden: names that begin with a dot are not served.",
            "Choose another name or folder.",
        )
    if is_scratch(segment):
        raise BadPath(
            f"{segment!r} in the path {shown} is a name that programs give to unfinished files: those are not served.",
            "Choose another name.",
        )


def _unwise_on_windows(path: str) -> bool:
    try:
        check_wise(path)
    except BadPath:
        return True
    return False


def check_wise(path: str) -> None:
    """Refuse names that look like others, or that other systems cannot hold.

    Raises:
        BadPath: There is one.
    """
    check_clear(path)
    for segment in path.split("/"):
        found = _NOT_ON_WINDOWS.search(segment)
        if found:
            raise BadPath(
                f"The name {shorten(segment)} holds {found[0]!r}, which Windows and phones cannot store.",
                'Leave out these characters: : * ? " < > |',
            )


def check_clear(path: str) -> None:
    """Refuse names that mislead people or systems: unseen characters, look-alikes of separators, devices.

    Raises:
        BadPath: There is one.
    """
    for segment in path.split("/"):
        shown = shorten(segment)
        if _UNWISE_UNSEEN.search(segment) or _JOINERS.search(segment):
            raise BadPath(f"The name {shown} holds characters that cannot be seen.", "Leave them out.")
        # An ellipsis is three dots by the same rule, but nobody takes it for a folder.
        plain = unicodedata.normalize("NFKC", segment.replace("…", "_"))
        if plain.startswith(".") or "/" in plain or "\\" in plain:
            raise BadPath(f"The name {shown} holds a look-alike of a dot or slash.", "Write the plain characters.")
        if segment != segment.rstrip(". ") or segment.startswith(" "):
            raise BadPath(f"The name {shown} begins with a space or ends with a space or dot.", "Leave it out.")
        if _DEVICE.fullmatch(plain):
            raise BadPath(f"The name {shown} is a device on Windows.", "Choose another name.")
        if len(segment.encode()) > 255:
            raise BadPath(f"The name {shown} is longer than 255 bytes.", "Choose a shorter name.")


def shorten(text: str) -> str:
    """A text for a message: quoted, odd characters spelled out, not too long."""
    return ascii(text[:120] + "…") if len(text) > 120 else (repr(text) if text.isprintable() else ascii(text))

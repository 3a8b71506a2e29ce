"""The folders that are served, and the only way from a text to a place on the disk.

A path is one text: the names as they are on the disk, with `/` between them. With one vault it begins in the vault's
folder (`Projects/Plan.md`), with several the vault's name comes first (`Work/Projects/Plan.md`). Nothing that
`Vault.locate` gives lies outside the vault, whatever the text and whatever symbolic links there are at that moment;
who writes must also see to it that no link is put in between afterwards (see `anchor.py`).

May import: `path_rules`, `text.names`. No more, so that the processes which only parse start quickly.

Names that programs give to files which they are still writing, or keep for themselves: those are not served.

Whoever watches a vault would see them come and go beside the notes they belong to. A copy that a sync client made of
a note because two people wrote it (`Plan (conflicted copy).md`, `Plan.sync-conflict-….md`) is somebody's text, and is
served. So is every note whose name only resembles one of these, as `~draft.md`.

May import: nothing of Tidings.

Which texts can be the path of something in a vault, and why the others cannot.

Two kinds of rules. What could mean a place outside the vault, or something hidden, is refused always. What is merely
unwise (a name that Windows or a phone cannot hold, characters that nobody sees) is refused for names that do not
exist yet: who has such a file wants to read it.

May import: `scratch`.
"""

import errno
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from tidings.vault.notes.model import key

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


__all__ = ["BadPath", "Mount", "Vault", "VaultUnusable", "key", "path_of", "uri"]


_LONGEST = 4096
"""Characters; no system takes a longer path."""


class VaultUnusable(ValueError):
    """A folder cannot be served as a vault. Says why, and what to do about it."""


@dataclass(frozen=True)
class Mount:
    """One vault."""

    name: str
    """The first segment of its paths; empty if it is the only one."""
    root: Path
    """Its folder, symbolic links resolved."""

    def path(self, inner: str) -> str:
        """The path of something in it, from its path within this vault alone."""
        return f"{self.name}/{inner}" if self.name and inner else self.name or inner


class Vault:
    """The folders that are served.

    Args:
        roots: One or more folders.
        exclude: Globs of what is not served, as in `.gitignore`: `Private` or `*.bak` anywhere, `Work/Old` from the
            vault's folder, `**` for any number of folders. What lies in an excluded folder is excluded. Upper and
            lower case are the same.

    Raises:
        VaultUnusable: One of them is not a folder, cannot be read, is given twice, or lies within another.
    """

    def __init__(self, roots: Sequence[Path], *, exclude: Sequence[str] = ()) -> None:
        if not roots:
            raise VaultUnusable("There is no vault. Give the folder of one.")
        folders = [_folder(Path(root)) for root in roots]
        _check_apart(folders)
        names = [""] if len(folders) == 1 else _names(folders)
        self.mounts: tuple[Mount, ...] = tuple(map(Mount, names, folders))
        self._by_name = {mount.name: mount for mount in self.mounts}
        self._prefixes = [(os.path.join(mount.root, ""), mount) for mount in self.mounts]  # noqa: PTH118 - with its end
        self._identities = {mount: _identity(mount) for mount in self.mounts}
        self._excluded = re.compile("|".join(map(_glob, exclude)), re.DOTALL) if exclude else None

    def mount_of(self, path: str) -> Mount:
        """The vault that a path lies in.

        Raises:
            BadPath: It lies in none.
        """
        return self.split(path)[0]

    def split(self, path: str) -> tuple[Mount, str]:
        """The vault that a path lies in, and the path within it: empty for the vault's own folder.

        Raises:
            BadPath: It lies in none.
        """
        if (only := self._by_name.get("")) is not None:
            return only, path
        name, _, inner = path.partition("/")
        if (mount := self._by_name.get(name)) is not None:
            return mount, inner
        known = ", ".join(repr(mount.name) for mount in self.mounts)
        raise BadPath(f"There is no vault {shorten(name)}.", f"Begin the path with the name of one: {known}.")

    def locate(self, path: str, *, creating: bool = False) -> Path:
        """Where on the disk a path is. It need not exist.

        Args:
            path: As users and agents write it.
            creating: Whether something may come to be there; then its name has to suit all systems.

        Raises:
            BadPath: It is no path of this vault, or symbolic links on the way lead out of it.
        """
        if len(path) > _LONGEST:
            raise _too_long(path)
        check_possible(path)
        mount, inner = self.split(path)
        place = mount.root / inner
        if not inner:
            if creating:
                raise BadPath(f"{path!r} is a whole vault.", f"Name something in it, such as '{path}/Plan.md'.")
            return place
        if new := _missing(mount.root, inner):
            (check_wise if creating else check_clear)(new)
        if self._is_excluded(inner):
            raise BadPath(f"The path {shorten(path)} is excluded from what is served.", "Choose another folder.")
        self._check_links(mount, place, path)
        return place

    def relative(self, absolute: Path | str) -> str | None:
        """The path of something that was seen on the disk, or None if it is outside, hidden or excluded.

        Looks at the text alone: who walks through folders does not follow links that lead out.
        """
        text = os.fspath(absolute)
        for prefix, mount in self._prefixes:
            if text.startswith(prefix):
                inner = text[len(prefix) :]
                path = mount.path(inner if os.sep == "/" else inner.replace(os.sep, "/"))
                return path if self.visible(path) else None
        return None

    def visible(self, path: str) -> bool:
        """Whether a path, by its text, is one that is served: not hidden, not unfinished, not excluded."""
        if not is_possible(path):
            return False
        if self._excluded is None:
            return True
        return not self._is_excluded(path if "" in self._by_name else path.partition("/")[2])

    def missing(self, mount: Mount) -> str | None:
        """Why nothing can be read or written in a vault at present, if its disk seems to be missing.

        A disk that was unplugged can leave an empty folder in its place, and what is written there is lost when it is
        back. A folder with files in it is taken for the vault, wherever it comes from.
        """
        shown = shorten(mount.root.name)
        try:
            now = _identity(mount)
            if now == self._identities[mount]:
                return None
            empty = not any(self.relative(place) for place in mount.root.iterdir())
        except OSError:
            return f"The vault's folder {shown} is not there: its disk seems to be missing. Connect it, and try again."
        if empty:
            return (
                f"The vault's folder {shown} is another one than before, and empty: its disk seems to be missing. "
                "Connect it, and try again; or start the server anew, if there is no other."
            )
        self._identities[mount] = now
        return None

    def holds(self, folder: Path) -> bool:
        """Whether a folder, there or not, lies in what is served: then what is in it is watched and indexed."""
        real = os.path.realpath(folder)
        return self.relative(real) is not None or any(real == os.fspath(mount.root) for mount in self.mounts)

    def _is_excluded(self, inner: str) -> bool:
        return self._excluded is not None and self._excluded.fullmatch(key(inner)) is not None

    def _check_links(self, mount: Mount, place: Path, path: str) -> None:
        try:
            os.stat(place)  # noqa: PTH116 - for the reason why it cannot be reached
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise BadPath(f"Symbolic links at {shorten(path)} lead in a circle.", "Remove one of them.") from None
            if error.errno == errno.ENAMETOOLONG:
                raise _too_long(path) from None
        real, root = os.path.realpath(place), os.path.join(mount.root, "")  # noqa: PTH118 - with its end
        inner = real.removeprefix(root).replace(os.sep, "/")
        within = real.startswith(root) and is_possible(inner) and not self._is_excluded(inner)
        if not within and real != os.fspath(mount.root):
            raise BadPath(
                f"A symbolic link at {shorten(path)} leads out of the vault or to what is not served.",
                "Use the place it leads to by its own path, if it is in the vault.",
            )


def uri(kind: str, path: str) -> str:
    """The URI of a resource: `vault://note/Projects/My%20plan.md`."""
    return f"vault://{kind}/{quote(path, safe='/')}"


def path_of(uri: str) -> str:
    """The path in the URI of a resource, without its query. Not checked: `Vault.locate` does that.

    Raises:
        BadPath: It is no URI of a vault, or what it encodes is no text.
    """
    scheme, _, rest = uri.partition("://")
    _, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if scheme != "vault" or not slash:
        raise BadPath(f"{shorten(uri)} is no URI of something in a vault.", "Write one such as 'vault://note/Plan.md'.")
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise BadPath(f"{shorten(uri)} encodes bytes that are no text.", "Percent-encode it as UTF-8.") from None


def _too_long(path: str) -> BadPath:
    return BadPath(f"The path {shorten(path)} is too long.", "Choose shorter names.")


def _missing(root: Path, inner: str) -> str:
    """The end of a path that is not on the disk yet."""
    names = inner.split("/")
    for count in range(len(names), 0, -1):
        if os.path.lexists(root.joinpath(*names[:count])):
            return "/".join(names[count:])
    return inner


def _folder(root: Path) -> Path:
    shown = shorten(os.fspath(root))
    try:
        folder = root.resolve(strict=True)
        os.listdir(folder)  # noqa: PTH208 - is it a folder, may it be read; a network disk asks for the truth
    except FileNotFoundError:
        raise VaultUnusable(
            f"There is no folder {shown}. Check how it is written, and that its disk is there."
        ) from None
    except NotADirectoryError:
        raise VaultUnusable(f"{shown} is a file. Give the folder of the vault.") from None
    except PermissionError:
        raise VaultUnusable(f"The folder {shown} may not be read. Allow this user to read and enter it.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise VaultUnusable(f"The folder {shown} cannot be used: {error}. Give the folder of a vault.") from error
    return folder


def _identity(mount: Mount) -> tuple[int, int]:
    found = mount.root.stat()
    return found.st_dev, found.st_ino


def _check_apart(folders: Sequence[Path]) -> None:
    for at, one in enumerate(folders):
        for other in folders[:at]:
            if one == other or one.samefile(other):
                raise VaultUnusable(f"The vault {str(one)!r} is given twice. Give it once.")
            if one.is_relative_to(other) or other.is_relative_to(one):
                raise VaultUnusable(
                    f"Of the vaults {str(other)!r} and {str(one)!r} one lies within the other. Give only the outer one."
                )


def _names(folders: Sequence[Path]) -> list[str]:
    names: list[str] = []
    for folder in folders:
        plain = folder.name if is_possible(folder.name) else "Vault"
        name, count = plain, 1
        while key(name) in map(key, names):
            count += 1
            name = f"{plain} {count}"
        names.append(name)
    return names


def _glob(text: str) -> str:
    """The regular expression of a glob, for `key` of a path within a vault."""
    plain = key(text.strip().replace("\\", "/")).removesuffix("/**").rstrip("/")
    if not plain:
        raise VaultUnusable(f"The exclusion {text!r} names nothing. Give a glob such as 'Private' or '*.bak'.")
    anywhere = "/" not in plain
    parts = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", plain.removeprefix("/"), re.DOTALL)
    expression = "".join(_WILD.get(part) or _literal(part) for part in parts)
    try:
        re.compile(expression)
    except re.error as error:
        raise VaultUnusable(f"The exclusion {text!r} is no glob: {error}. Write it such as '[a-z]*.bak'.") from None
    return f"{'(?:.*/)?' if anywhere else ''}{expression}(?:/.*)?"


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _literal(part: str) -> str:
    if len(part) == 1:
        return re.escape(part)
    within = part[1:-1].removeprefix("!").replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    return f"[{'^' if part[1] == '!' else ''}{within}]"

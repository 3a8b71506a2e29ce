"""`Vault` and `Mount`: the folders that are served, and the only way from a text to a place on the disk.

A path is one text: the names as they are on the disk, with `/` between them. With one vault it begins in the vault's
folder (`Projects/Plan.md`), with several the vault's name comes first (`Work/Projects/Plan.md`). Paths that could mean
a place outside the vault, or something hidden, are always refused, whatever the symbolic links at that moment; a writer
must also make sure that no link is put in between afterwards (see `folders.py`). Unwise names are refused only for new
files. Temporary files of other programs are not served: a client that watches the vault would see them come and go.
"""

import errno
import itertools
import os
import re
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from tidings._kit.text import quoted
from tidings.vault.notes.model import key

_LONGEST = 4096  # Characters; no system takes a longer path.
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

# Names that begin with a dot are hidden anyway: `.~lock.…#` of LibreOffice, `.….swp` of Vim, `.syncthing.….tmp`,
# `.stfolder`, `.dropbox…`, `.….icloud`, the `.~…` of Nextcloud.
_ENDINGS = (
    r"\.tmp",  # most programs that write a new file and then rename it; `~syncthing~….tmp`
    r"\.tmp\.[0-9.]+",  # the same, with a process id or a time
    r"~(?<=[^/]~)",  # Emacs, Vim, gedit, Kate: a backup
    r"\.sw[nop]",  # Vim, while a file is open
    r"\.part",  # Firefox and others: a download
    r"\.partial",  # Internet Explorer, rclone: a download
    r"\.crdownload",  # Chromium and its derivatives: a download
    r"\.filepart",  # Nextcloud, WinSCP: a transfer
    r"\.!sync",  # Resilio Sync: a transfer
    r"\.icloud",  # iCloud: a placeholder for a file that is not on this disk
    r"\.sb-[0-9a-f]{8}-\w{6}",  # macOS: the folder in which a document is saved
)
_NAMES = (
    r"~\$[^/]+",  # Microsoft Office, while a document is open
    r"\#[^/]+\#",  # Emacs, between two saves
    r"4913",  # Vim, to test whether it may write in a folder
)

# Two expressions: one that begins with a dot or `~` is several times as fast as one for all of them.
_ENDING = re.compile(rf"(?:{'|'.join(_ENDINGS)})(?:/|\Z)", re.IGNORECASE)
_NAME = re.compile(rf"(?:\A|/)(?:{'|'.join(_NAMES)})(?:/|\Z)")

_ON_WINDOWS = os.name == "nt"
# Characters without a shape. Some file systems treat names with and without them as the same.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
)
_IMPOSSIBLE = re.compile(
    rf"""
      [\x00-\x1f\x7f-\x9f\\\ud800-\udfff]     # control characters, backslashes, bytes that are not text
    | (?:^|/)[{_INVISIBLE}]*(?:\.|/|$)        # empty, '.', '..', hidden; a slash at either end
    | ^[A-Za-z]:(?:/|$)                       # a drive
    """,
    re.VERBOSE,
)

_UNWISE_INVISIBLE = re.compile(r"[\u00ad\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]")
# Joiners belong into emoji and some scripts; next to ASCII they only hide.
_JOINERS = re.compile(r"(?:^|[\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?:$|[\x00-\x7f])")
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(?:\..*)?", re.IGNORECASE | re.DOTALL
)
_NOT_ON_WINDOWS = re.compile(r'[:*?"<>|]')
_BREAKS_LINKS = re.compile(r"[#^\[\]]")


class BadPath(ValueError):
    """A text is not the path of something in the vault. Says why, and what to write instead."""

    def __init__(self, reason: str, cure: str) -> None:
        super().__init__(f"{reason} {cure}")
        self.reason = reason
        self.cure = cure


class VaultUnusable(ValueError):
    """A folder cannot be served as a vault. The message says why, and what to do."""


def is_scratch(path: str) -> bool:
    """Returns whether a file, or a folder on the way to it, has the name of a temporary one."""
    return _ENDING.search(path) is not None or _NAME.search(path) is not None


def is_possible(path: str) -> bool:
    """Returns whether something that is served can have this path."""
    try:
        if _ON_WINDOWS:
            check_wise(path)
    except BadPath:
        return False
    return _IMPOSSIBLE.search(path) is None and not is_scratch(path)


def check_possible(path: str) -> None:  # noqa: C901 - one for each reason
    """Refuses a path that could mean a place outside the vault, or something hidden."""
    if is_possible(path):
        return
    shown = quoted(path)
    if not path:
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    if "\\" in path:
        raise BadPath(f"The path {shown} contains a backslash.", "Write '/' between folders.")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        cure = "Give it relative to the vault's folder, such as 'Projects/Plan.md'."
        raise BadPath(f"The path {shown} is absolute.", cure)
    if re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", path):
        raise BadPath(f"The path {shown} contains control characters.", "Leave them out.")
    for segment in path.split("/"):
        visible = re.sub(f"[{_INVISIBLE}]", "", segment)
        if not visible:
            raise BadPath(f"The path {shown} has an empty name.", "Write one '/' between folders and none at the end.")
        if not visible.strip("."):
            raise BadPath(f"The path {shown} contains {segment!r}.", "Name each folder; '.' and '..' are not followed.")
        if visible.startswith("."):
            why = "hidden: names that begin with a dot are not served."
            raise BadPath(f"{segment!r} in the path {shown} is {why}", "Choose another name or folder.")
        if is_scratch(segment):
            why = "a name for temporary files, which are not served."
            raise BadPath(f"{segment!r} in the path {shown} is {why}", "Choose another name.")
        check_wise(segment)  # On Windows, where unwise names are impossible.


def check_wise(path: str, *, portable: bool = True) -> None:
    """Refuses names that mislead people or systems; if `portable`, also those that other systems cannot store."""
    for segment in path.split("/"):
        shown = quoted(segment)
        if _UNWISE_INVISIBLE.search(segment) or _JOINERS.search(segment):
            raise BadPath(f"The name {shown} contains invisible characters.", "Leave them out.")
        # An ellipsis is three dots by the same rule, but nobody mistakes it for a folder.
        plain = unicodedata.normalize("NFKC", segment.replace("…", "_"))
        if plain.startswith(".") or "/" in plain or "\\" in plain:
            raise BadPath(f"The name {shown} contains a look-alike of a dot or slash.", "Write the plain characters.")
        if segment != segment.rstrip(". ") or segment.startswith(" "):
            raise BadPath(f"The name {shown} begins with a space or ends with a space or dot.", "Leave it out.")
        if _DEVICE.fullmatch(plain):
            raise BadPath(f"The name {shown} is a device on Windows.", "Choose another name.")
        if len(segment.encode()) > 255:
            raise BadPath(f"The name {shown} is longer than 255 bytes.", "Choose a shorter name.")
        if portable and (found := _NOT_ON_WINDOWS.search(segment)):
            why = f"contains {found[0]!r}, which Windows and phones cannot store."
            raise BadPath(f"The name {shown} {why}", 'Leave out these characters: : * ? " < > |')
        if portable and (found := _BREAKS_LINKS.search(segment)):
            why = f"contains {found[0]!r}: Obsidian's links to such a name do not work."
            raise BadPath(f"The name {shown} {why}", "Leave out these characters: # ^ [ ]")


@dataclass(frozen=True)
class Mount:
    """One vault."""

    name: str  # The first segment of its paths; empty if it is the only one.
    root: Path  # Its folder, symbolic links resolved.

    def path(self, inner: str) -> str:
        return f"{self.name}/{inner}" if self.name and inner else self.name or inner

    def identity(self) -> tuple[int, int] | None:
        """Returns device and inode of its folder; None if there is no folder, or it cannot be reached."""
        try:
            found = self.root.stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


class Vault:
    """The folders that are served. Raises `VaultUnusable` if one cannot be, is given twice, or lies within another.

    `exclude` are globs of what is not served, as in `.gitignore`: `Private` or `*.bak` anywhere, `Work/Old` from the
    vault's folder, `**` for any number of folders. Everything in an excluded folder is excluded. Case is ignored.
    """

    def __init__(self, roots: Sequence[Path], *, exclude: Sequence[str] = ()) -> None:
        if not roots:
            raise VaultUnusable("There is no vault. Give the folder of one.")
        folders = [_folder(Path(root)) for root in roots]
        for one, other in itertools.combinations(folders, 2):
            if one == other or one.samefile(other):
                raise VaultUnusable(f"The vault {str(other)!r} is given twice. Give it once.")
            if one.is_relative_to(other) or other.is_relative_to(one):
                both = f"{str(one)!r} and {str(other)!r}"
                raise VaultUnusable(f"Of the vaults {both}, one lies within the other. Give only the outer one.")
        names = [""] if len(folders) == 1 else _names(folders)
        self.mounts: tuple[Mount, ...] = tuple(map(Mount, names, folders))
        self._by_name = {mount.name: mount for mount in self.mounts}
        self._prefixes = [(os.path.join(mount.root, ""), mount) for mount in self.mounts]  # noqa: PTH118 - with its end
        self._identities = {mount: mount.identity() for mount in self.mounts}
        self._excluded = re.compile("|".join(map(_glob, exclude)), re.DOTALL) if exclude else None
        self.excluded = "\0".join(["", *sorted(exclude)]) if exclude else ""
        """Identifies what is excluded: servers that exclude something else have another index, and another log."""

    def mount_of(self, path: str) -> Mount:
        return self.split(path)[0]

    def split(self, path: str) -> tuple[Mount, str]:
        """Returns the vault of a path, and the path within it (empty: the vault's own folder), or raises `BadPath`."""
        if (only := self._by_name.get("")) is not None:
            return only, path
        name, _, inner = path.partition("/")
        if (mount := self._by_name.get(name)) is not None:
            return mount, inner
        known = ", ".join(repr(mount.name) for mount in self.mounts)
        raise BadPath(f"There is no vault {quoted(name)}.", f"Begin the path with the name of one: {known}.")

    def locate(self, path: str, *, creating: bool = False) -> Path:
        """Returns the place of a path, which need not exist; with `creating`, of a wise one. Raises `BadPath`."""
        if len(path) > _LONGEST:
            raise _too_long(path)
        check_possible(path)
        mount, inner = self.split(path)
        place = mount.root / inner
        if not inner:
            if creating:
                raise BadPath(f"{path!r} is a whole vault.", f"Name something in it, such as '{path}/Plan.md'.")
            return place
        names = inner.split("/")
        while names and not os.path.lexists(mount.root.joinpath(*names)):
            names.pop()
        if new := "/".join(inner.split("/")[len(names) :]):
            check_wise(new, portable=creating)
        if self._is_excluded(inner):
            raise BadPath(f"The path {quoted(path)} is excluded.", "Choose another folder.")
        self._check_links(mount, place, path)
        return place

    def relative(self, absolute: Path | str) -> str | None:
        """Returns the path of a place on the disk, by its text alone; None if it is outside, hidden or excluded."""
        text = os.fspath(absolute)
        for prefix, mount in self._prefixes:
            if text.startswith(prefix):
                path = mount.path(text[len(prefix) :].replace(os.sep, "/"))
                return path if self.visible(path) else None
        return None

    def visible(self, path: str) -> bool:
        """Returns whether a path, by its text, is served: not hidden, not temporary, not excluded."""
        inner = path if "" in self._by_name else path.partition("/")[2]
        return is_possible(path) and not (self._excluded and self._is_excluded(inner))

    def missing(self, mount: Mount) -> str | None:
        """Returns why a vault cannot be used: its disk seems to be missing. An empty folder may be in its place."""
        shown = quoted(mount.root.name)
        try:
            now = mount.identity()
            if now is not None and now == self._identities[mount]:
                return None
            empty = not any(self.relative(place) for place in mount.root.iterdir())
        except OSError:
            return f"The vault's folder {shown} does not exist: its disk seems to be missing. Connect it and try again."
        if empty:
            cure = "Connect it and try again; or restart the server if this is the vault."
            why = "a different one than before, and empty: its disk seems to be missing"
            return f"The vault's folder {shown} is {why}. {cure}"
        self._identities[mount] = now
        return None

    def holds(self, folder: Path) -> bool:
        """Returns whether a folder, existing or not, lies in what is served: it would be watched and indexed."""
        real = os.path.realpath(folder)
        return self.relative(real) is not None or any(real == os.fspath(mount.root) for mount in self.mounts)

    def _is_excluded(self, inner: str) -> bool:
        return self._excluded is not None and self._excluded.fullmatch(key(inner)) is not None

    def _check_links(self, mount: Mount, place: Path, path: str) -> None:
        try:
            os.stat(place)  # noqa: PTH116 - for the reason why it cannot be reached
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise BadPath(f"Symbolic links at {quoted(path)} lead in a circle.", "Remove one of them.") from None
            if error.errno == errno.ENAMETOOLONG:
                raise _too_long(path) from None
        real, root = os.path.realpath(place), os.path.join(mount.root, "")  # noqa: PTH118 - with its end
        inner = real.removeprefix(root).replace(os.sep, "/")
        within = real.startswith(root) and is_possible(inner) and not self._is_excluded(inner)
        if not within and real != os.fspath(mount.root):
            why = f"A symbolic link at {quoted(path)} leads out of the vault or to something that is not served."
            raise BadPath(why, "Use the path of its target, if that is in the vault.")


def uri(kind: str, path: str) -> str:
    """Returns the URI of a resource: `vault://note/Projects/My%20plan.md`."""
    return f"vault://{kind}/{quote(path, safe='/')}"


def path_of(uri: str) -> str:
    """Returns the path in the URI of a resource, without its query, or raises `BadPath`. It is not checked further."""
    scheme, _, rest = uri.partition("://")
    _, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if scheme != "vault" or not slash:
        raise BadPath(f"{quoted(uri)} is not a URI of a vault.", "Write one such as 'vault://note/Plan.md'.")
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise BadPath(f"{quoted(uri)} encodes bytes that are not text.", "Percent-encode it as UTF-8.") from None


def _too_long(path: str) -> BadPath:
    return BadPath(f"The path {quoted(path)} is too long.", "Choose shorter names.")


def _folder(root: Path) -> Path:
    shown = quoted(os.fspath(root))
    try:
        folder = root.resolve(strict=True)
        os.listdir(folder)  # noqa: PTH208 - is it a folder, may it be read; also true on a network disk
    except FileNotFoundError:
        raise VaultUnusable(f"There is no folder {shown}. Check the spelling and its disk.") from None
    except NotADirectoryError:
        raise VaultUnusable(f"{shown} is a file. Give the folder of the vault.") from None
    except PermissionError:
        raise VaultUnusable(f"The folder {shown} may not be read. Allow this user to read and enter it.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise VaultUnusable(f"The folder {shown} cannot be used: {error}. Give the folder of a vault.") from error
    return folder


def _names(folders: Sequence[Path]) -> list[str]:
    names: list[str] = []
    for folder in folders:
        plain = folder.name if is_possible(folder.name) else "Vault"
        numbered = (f"{plain} {count}" for count in itertools.count(2))
        names.append(next(name for name in itertools.chain([plain], numbered) if key(name) not in map(key, names)))
    return names


def _glob(text: str) -> str:
    """Returns the regular expression of a glob, for `key` of a path within a vault."""
    plain = key(text.strip().replace("\\", "/")).removesuffix("/**").rstrip("/")
    if not plain:
        raise VaultUnusable(f"The exclusion {text!r} names nothing. Give a glob such as 'Private' or '*.bak'.")
    anywhere = "/" not in plain
    parts = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", plain.removeprefix("/"), re.DOTALL)
    expression = "".join(_WILD.get(part) or (re.escape(part) if len(part) == 1 else _any_of(part)) for part in parts)
    try:
        re.compile(expression)
    except re.error as error:
        raise VaultUnusable(f"The exclusion {text!r} is not a glob: {error}. Use one such as '[a-z]*.bak'.") from None
    return f"{'(?:.*/)?' if anywhere else ''}{expression}(?:/.*)?"


def _any_of(part: str) -> str:
    within = part[1:-1].removeprefix("!").replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    return f"[{'^' if part[1] == '!' else ''}{within}]"

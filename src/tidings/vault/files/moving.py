"""Moving a file or folder, and updating the links to it; deleting, which moves it to the folder `.trash`.

Only links that would lead elsewhere afterwards, or nowhere, are rewritten, in the style they were written in: by name,
relative to the note, or from the vault's folder. That covers links to the moved files, links in them, and links that a
file with the same name would catch. A Markdown link that is a path from its note, as other programs read it, stays one.
All new texts are made before anything is moved, and read again: a link that does not lead where it led is reported. If
a text cannot be written, everything is put back. A note that another program changes in the meantime is left alone and
reported.

Nothing is deleted permanently. In the trash of its vault, a file keeps its folders, as in Obsidian, and gets a number
if its name is taken.
"""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import NamedTuple, Protocol

from tidings.vault.files import outcomes
from tidings.vault.files.content import FileContent
from tidings.vault.files.disk import Disk, OpenedFile, check_version
from tidings.vault.files.folders import OpenFolder, move_to_free_name
from tidings.vault.files.outcomes import AlreadyThere, Conflict, FileMoved, NotThere, Skipped, explained
from tidings.vault.files.paths import BadPath, Mount, is_scratch
from tidings.vault.notes import parse
from tidings.vault.notes.canvas import canvas_links, canvas_rewrite
from tidings.vault.notes.links import MARKDOWN, Candidates, Style, link_name, resolve, rewrite, rewritten
from tidings.vault.notes.model import NoteLink, key

TRASH = ".trash"

# Files that systems and programs leave in any folder.
_LITTER = frozenset({".DS_Store", ".localized", ".directory", ".gitkeep", ".keep", ".nomedia"})
_MOST_NAMES = 10_000
_MOST_IN_FILE = 200_000  # Links in one file that are looked at: more would take too much memory.
_MOST_LINKS, _LONGEST_LINK = 200, 200  # Links of one file that are named, and characters of each that are shown.


class References(Protocol):
    """The names and links in the index. Called in the thread that moves."""

    def sources(self, names: Collection[str], /) -> Iterable[str]:
        """Returns the paths of the notes and canvases with links to any of these names; see `link_name`."""
        ...

    def candidates(self, name: str, /) -> Sequence[str]: ...


def move(
    disk: Disk, path: str, to: str, references: References, *, if_match: str = "", dry_run: bool = False
) -> FileMoved:
    """Moves a file or folder; see `VaultWriter.move`."""
    with disk.everything():
        step = _check(disk, path, to)
        path, to = step.place.real, step.to.real  # Notes know nothing of symbolic links on the way.
        old = _files_in(disk, step.place) if step.is_folder else [path]
        moved = {each: to + each.removeprefix(path) for each in old}
        plans, skipped, unwritten = _plan(disk, moved, references)
        if dry_run:
            with explained(path, "moved"):
                _try(disk, step, if_match)
            where = {new: old for old, new in moved.items()}
            changed = [where.get(plan.path, plan.path) for plan in plans]
            return FileMoved(path, to, (), tuple(changed), tuple(skipped), tuple(unwritten))
        with explained(path, "moved"):
            there = _rename(disk, step, if_match)
        changed = list[str]()
        try:
            for plan in plans:
                try:
                    disk.change(disk.place(plan.path), plan.make)
                except Conflict as error:
                    skipped.append(Skipped(plan.path, str(error)))
                else:
                    changed.append(plan.path)
        except (OSError, ValueError) as error:
            left = _undo(disk, step, [plan for plan in plans if plan.path in changed])
            there.discard()
            state = f"These could not be put back: {', '.join(left)}." if left else "Everything was put back."
            why = f"because of a note with links to it: {error} {state}"
            raise outcomes.WriteFailed(f"{path!r} was not moved, {why}") from error
        touched = dict.fromkeys([*moved, *moved.values(), *changed])
        return FileMoved(path, to, tuple(touched), tuple(changed), tuple(skipped), tuple(unwritten))


class _Step(NamedTuple):
    place: OpenedFile
    to: OpenedFile
    is_folder: bool


def _check(disk: Disk, path: str, to: str) -> _Step:
    place = disk.place(path, follow=False)
    if disk.vault.mount_of(to) != place.mount:
        cure = "Move within one vault; links cannot lead out of it."
        raise BadPath(f"{to!r} is in another vault than {path!r}.", cure)
    target = disk.place(to, creating=True, follow=False)
    with explained(path, "moved"):
        try:
            with place.enter() as folder:
                found = folder.stat(place.name)
        except FileNotFoundError:
            found = None
    if found is None:
        raise NotThere(f"There is nothing at {path!r} to move. Check the spelling.")
    if stat.S_ISLNK(found.st_mode):
        raise AlreadyThere(f"{path!r} is a symbolic link. Move what it leads to.")
    if place.real == target.real:
        raise AlreadyThere(f"{path!r} already has this path. Give another one.")
    if (*target.folder, target.name)[: len(place.folder) + 1] == (*place.folder, place.name):
        raise BadPath(f"{to!r} lies within {path!r} itself.", "Choose another folder.")
    return _Step(place, target, stat.S_ISDIR(found.st_mode))


def _rename(disk: Disk, step: _Step, if_match: str) -> OpenFolder:
    with ExitStack() as stack:
        here = stack.enter_context(step.place.enter())
        there = here if step.to.folder == step.place.folder else stack.enter_context(step.to.enter(create=True))
        for folder in sorted({here, there}, key=lambda folder: folder.place):  # Two programs lock in the same order.
            folder.lock()
        _check_match(disk, here, step.place, if_match, is_folder=step.is_folder)
        if _is_same(here, step.place.name, there, step.to.name):
            here.rename(step.place.name, there, step.to.name)  # Only the case of letters changes.
        elif not _take(here, step.place.name, there, step.to.name, is_folder=step.is_folder):
            raise _taken(step)
        return there


def _try(disk: Disk, step: _Step, if_match: str) -> None:
    """Refuses what `_rename` would refuse, and changes nothing."""
    with step.place.enter() as here:
        _check_match(disk, here, step.place, if_match, is_folder=step.is_folder)
        try:
            there = step.to.enter()
        except FileNotFoundError:
            return
        with there:
            if there.stat(step.to.name) and not _is_same(here, step.place.name, there, step.to.name):
                raise _taken(step)


def _taken(step: _Step) -> AlreadyThere:
    return AlreadyThere(f"{step.to.path!r} already exists. Choose another name, or delete it first.")


def _is_same(here: OpenFolder, name: str, there: OpenFolder, to: str) -> bool:
    """Returns whether both names are of one file, as on disks that ignore case."""
    mine, other = here.stat(name), there.stat(to)
    return other is not None and mine is not None and key(name) == key(to) and mine.st_ino == other.st_ino


@dataclass(frozen=True, slots=True)
class _Plan:
    path: str  # Its path after the move.
    before: FileContent
    text: str

    def make(self, now: FileContent | None, *, back: bool = False) -> str:
        """Returns the new text, or the one before; only in the place of the other."""
        if now is None or (now.text != self.text if back else now.version != self.before.version):
            raise Conflict(self.path, self.before.version, now.version if now else None)
        return self.before.text if back else self.text


def _undo(disk: Disk, step: _Step, written: Sequence[_Plan]) -> list[str]:
    left: list[str] = []
    for plan in written:
        try:
            disk.change(disk.place(plan.path), partial(plan.make, back=True))
        except (OSError, ValueError):
            left.append(repr(plan.path))
    try:
        _rename(disk, _Step(step.to, step.place, step.is_folder), "")
    except (OSError, ValueError):
        left.append(repr(step.to.path))
    return left


def _plan(
    disk: Disk, moved: Mapping[str, str], references: References
) -> tuple[list[_Plan], list[Skipped], list[Skipped]]:
    """Returns the texts to write, in order; the files that cannot be changed; and the links that cannot."""
    mount = disk.vault.mount_of(next(iter(moved)))
    names = {link_name(path) for pair in moved.items() for path in pair}
    inner = {disk.vault.split(old)[1]: disk.vault.split(new)[1] for old, new in moved.items()}
    links = _LinkUpdate(references, mount, inner)
    plans: list[_Plan] = []
    skipped: list[Skipped] = []
    unwritten: list[Skipped] = []
    for path in dict.fromkeys([*moved, *references.sources(names)]):
        if not path.lower().endswith((".md", ".canvas")) or disk.vault.mount_of(path) != mount:
            continue
        try:
            content = disk.read(path)
        except NotThere:
            continue
        except (OSError, ValueError) as error:
            skipped.append(Skipped(path, str(error)))
            continue
        if sum(map(content.text.count, ("[[", "](", "]:"))) > _MOST_IN_FILE:
            why = f"It may have more than {_MOST_IN_FILE:,} links, which are too many to look at. Edit them by hand."
            skipped.append(Skipped(path, why))
            continue
        text, dead = links.updated(disk.vault.split(path)[1], content.text)
        if dead:
            unwritten.append(Skipped(moved.get(path, path), _named(content.text, dead)))
        if text == content.text:
            continue
        if content.problem:
            skipped.append(Skipped(path, f"{path!r} cannot be edited: {content.problem}."))
        else:
            plans.append(_Plan(moved.get(path, path), content, text))
    return plans, skipped, unwritten


def _named(text: str, links: Sequence[NoteLink]) -> str:
    """Names links that could not be rewritten."""
    shown = [f"{text[link.start : link.end][:_LONGEST_LINK]} (line {link.line})" for link in links[:_MOST_LINKS]]
    more = f", and {len(links) - _MOST_LINKS:,} more" if len(links) > _MOST_LINKS else ""
    return f"{', '.join(shown)}{more} could not be rewritten. Edit by hand where it leads."


class _LinkUpdate:
    """Updates the links in the texts of notes and canvases. All paths are within the vault."""

    def __init__(self, references: References, mount: Mount, moved: Mapping[str, str]) -> None:
        self._references = references
        self._prefix = mount.path("x")[:-1]
        self._moved = moved
        self._new: dict[str, list[str]] = {}
        for path in moved.values():
            self._new.setdefault(link_name(path), []).append(path)

    def updated(self, source: str, text: str) -> tuple[str, list[NoteLink]]:
        """Returns the text of a file after the move, and the links in it that will not lead where they led."""
        is_canvas = source.lower().endswith(".canvas")

        def found(text: str) -> Sequence[NoteLink]:
            return canvas_links(text) if is_canvas else parse.parse(text, source).links

        links, new_target = found(text), partial(self._target, source)
        new = canvas_rewrite(text, new_target) if is_canvas else rewrite(text, links, new_target)
        now = found(new) if new != text else links
        if len(now) != len(links):  # A new target would be read as something else.
            new, now = text, links
        there = self._moved.get(source, source)
        pairs = [(link, other, self._goal(link, source)) for link, other in zip(links, now, strict=True)]
        return new, [
            link
            for link, other, goal in pairs
            if goal and (_leads(other, there, self._after), other.subpath) != (goal, link.subpath)
        ]

    def _target(self, source: str, link: NoteLink) -> str | None:
        """Returns the new target of a link; None if it can stay."""
        goal = self._goal(link, source)
        if goal is None or link.kind == "canvas":
            return goal
        there = self._moved.get(source, source)
        relative = _is_path(link, _leads(link, source, self._before), source)
        if _leads(link, there, self._after) == goal and (not relative or _is_path(link, goal, there)):
            return None
        relative = relative or link.target.startswith(("./", "../"))
        style: Style = "relative" if relative else "absolute" if "/" in link.target else "shortest"
        return rewritten(link, goal, there, self._after, style)

    def _goal(self, link: NoteLink, source: str) -> str | None:
        """Returns the path after the move of the file that a link leads to."""
        path = _leads(link, source, self._before)
        return None if path is None else self._moved.get(path, path)

    def _before(self, name: str) -> list[str]:
        known = self._references.candidates(name)
        return [path.removeprefix(self._prefix) for path in known if path.startswith(self._prefix)]

    def _after(self, name: str) -> list[str]:
        kept = [path for path in self._before(name) if path not in self._moved]
        return [*kept, *(path for path in self._new.get(name, ()) if path not in kept)]


def _leads(link: NoteLink, source: str, candidates: Candidates) -> str | None:
    # Files on a canvas are always named from the vault's folder.
    target = f"/{link.target}" if link.kind == "canvas" else link.target
    return resolve(target, source, candidates) if link.target else None


def _is_path(link: NoteLink, path: str | None, source: str) -> bool:
    """Returns whether a link is the path from its note to a file, which is the only rule of other programs."""
    return link.kind in MARKDOWN and normpath(join(dirname(source), link.target)) == path


def delete(disk: Disk, path: str, *, if_match: str = "", recursive: bool = False) -> outcomes.FileDeleted:
    """Moves a file or folder to the trash; see `VaultWriter.delete`."""
    with disk.everything(), explained(path, "deleted"), ExitStack() as stack:
        place = disk.place(path, follow=False)
        found = folder = None
        with suppress(FileNotFoundError):
            folder = stack.enter_context(place.enter())
            folder.lock()
            found = folder.stat(place.name)
        if found is None or folder is None:
            raise NotThere(f"There is nothing at {path!r} to delete. Check the spelling.")
        is_folder = stat.S_ISDIR(found.st_mode)
        _check_match(disk, folder, place, if_match, is_folder=is_folder)
        if is_folder and not recursive:
            with OpenFolder(place.mount.root, (*place.folder, place.name)) as inside:
                count = len(inside.names())
            if count:
                many = f"it has {count} entries. Set recursive=true to delete all."
                raise AlreadyThere(f"The folder {place.path!r} is not empty: {many}")
        touched = _files_in(disk, place) if is_folder else [place.real]
        trash, name = _put(place, folder, is_folder=is_folder)
        return outcomes.FileDeleted(path, f"{trash}/{name}", tuple(touched))


def _check_match(disk: Disk, folder: OpenFolder, place: OpenedFile, if_match: str, *, is_folder: bool) -> None:
    """Refuses a file that is not the version the caller has read (see `check_version`), and a version of a folder."""
    if not if_match:
        return
    if is_folder:
        raise outcomes.NotText(f"{place.path!r} is a folder, and folders have no version. Leave out if_match.")
    check_version(disk.texts, place.path, if_match, disk.look(folder, place)[0])


def _files_in(disk: Disk, place: OpenedFile) -> list[str]:
    """Returns the files in a folder, or an empty folder itself. Raises `BadPath` if not everything in it is served."""
    found: list[str] = []
    unseen = 0
    for at, folders, files in os.walk(place.mount.root.joinpath(*place.folder, place.name)):
        served = {name: path for name in (*folders, *files) if (path := disk.vault.relative(Path(at, name)))}
        litter = {name for name in files if name in _LITTER or name.startswith("._") or is_scratch(name)}
        unseen += len({*folders, *files} - served.keys() - litter)
        folders[:] = [name for name in folders if name in served]
        found += [served[name] for name in files if name in served]
    if unseen:
        what = "something that is" if unseen == 1 else f"{unseen:,} files or folders that are"
        cure = "Move or delete its files one by one, or ask the user to do it: hidden files are not taken along."
        why = "because of a leading dot or an exclusion"
        raise BadPath(f"The folder {place.path!r} contains {what} not served, {why}.", cure)
    return sorted(found) or [place.real]


def _put(place: OpenedFile, folder: OpenFolder, *, is_folder: bool) -> tuple[str, str]:
    """Moves it to the trash, under its own folders if possible, else at the top. Returns folder and name there."""
    stem, dot, extension = (place.name, "", "") if is_folder else place.name.rpartition(".")
    stem, ending = (stem, dot + extension) if stem else (place.name, "")
    while len(f"{stem} 99999{ending}".encode()) > 255 and len(stem) > 1:
        stem = stem[:-1]
    candidates = [place.name, *(f"{stem} {number}{ending}" for number in range(1, _MOST_NAMES))]
    for names in ((TRASH, *place.folder), (TRASH,)):
        try:
            trash = OpenFolder(place.mount.root, names, create=True)
        except NotADirectoryError:
            continue
        with trash:
            trash.lock()
            for name in candidates:
                if _take(folder, place.name, trash, name, is_folder=is_folder):
                    return "/".join(names), name
    raise AlreadyThere(f"There is no room for {place.path!r} in the trash. Empty the folder '{TRASH}' of the vault.")


def _take(folder: OpenFolder, name: str, other: OpenFolder, to: str, *, is_folder: bool) -> bool:
    """Moves a file or folder to a name that is free. Returns False if it is taken."""
    if other.stat(to) is not None:
        return False
    if not is_folder:
        return move_to_free_name(folder, name, other, to)
    folder.rename(name, other, to)
    return True

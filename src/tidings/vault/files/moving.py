"""Moving a file or folder, and updating the links to it; deleting, which moves it to the folder `.trash`.

Only links that would lead elsewhere afterwards, or nowhere, are rewritten, in the style they were written in: links to
the moved files, links in them, and links that a file with the same name would catch. All new texts are made before
anything is moved, and read again: a link that does not lead where it led is reported. If a text cannot be written,
everything is put back. In the trash of its vault, a file keeps its folders, and gets a number if its name is taken.
"""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Protocol

from tidings.vault.files import outcomes
from tidings.vault.files.disk import Disk, OpenedFile, PlannedEdit, check_version, is_same, taken
from tidings.vault.files.folders import OpenFolder, move_to_free_name
from tidings.vault.files.journal import Operation, Step
from tidings.vault.files.outcomes import AlreadyThere, FileMoved, NotText, NotThere, Skipped, explained
from tidings.vault.files.paths import BadPath, Mount, is_scratch
from tidings.vault.notes import parse
from tidings.vault.notes.canvas import canvas_links, canvas_rewrite
from tidings.vault.notes.links import MARKDOWN, Candidates, SameName, Style, link_name, resolve, rewrite, rewritten
from tidings.vault.notes.model import NoteLink

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
        place, target, is_folder = _check(disk, path, to)
        path, to = place.real, target.real  # Notes know nothing of symbolic links on the way.
        old = _files_in(disk, place) if is_folder else [path]
        moved = {each: to + each.removeprefix(path) for each in old}
        plans, skipped, unwritten = _plan(disk, moved, references)
        if dry_run:
            with explained(path, "moved"), place.enter() as here:
                _check_match(disk, place, if_match, here)
                with suppress(FileNotFoundError), target.enter() as there:
                    if there.stat(target.name) and not is_same(here, place.name, there, target.name):
                        raise taken(target)
            return FileMoved(path, to, (), tuple(plan.path for plan in plans), tuple(skipped), tuple(unwritten))
        renamed = Step(path, to)
        with disk.journal.operation(f"Moved {path} to {to}") as operation:
            with explained(path, "moved"):
                operation.intend(renamed, *(plan.step for plan in plans))
                there = disk.rename(place, target, partial(_check_match, disk, place, if_match))
            made: list[PlannedEdit] = []
            try:
                for plan in plans:
                    try:
                        if disk.change(disk.at(plan.step.path), plan.make, operation).touched:
                            made.append(plan)
                    except (NotThere, NotText) as error:
                        skipped.append(Skipped(moved.get(plan.path, plan.path), str(error)))
            except (OSError, ValueError) as error:
                written = [operation.steps[plan.step.path, False] for plan in made]
                left = disk.put_back([renamed, *written], operation)
                there.discard()
                unable = f"These could not be put back: {', '.join(map(repr, left))}."
                why = f"because of a note with links to it: {error} {unable if left else 'Everything was put back.'}"
                raise outcomes.WriteFailed(f"{path!r} was not moved, {why}") from error
        changed = [moved.get(plan.path, plan.path) for plan in made]
        touched = dict.fromkeys([*moved, *moved.values(), *changed])
        return FileMoved(path, to, tuple(touched), tuple(changed), tuple(skipped), tuple(unwritten))


def _check(disk: Disk, path: str, to: str) -> tuple[OpenedFile, OpenedFile, bool]:
    """Returns the place, the new one, and whether it is a folder."""
    place = disk.place(path, follow=False)
    if disk.vault.mount_of(to) != place.mount:
        cure = "Move within one vault; links cannot lead out of it."
        raise BadPath(f"{to!r} is in another vault than {path!r}.", cure)
    target = disk.place(to, creating=True, follow=False)
    with explained(path, "moved"):
        found = place.stat()
    if found is None:
        raise NotThere(f"There is nothing at {path!r} to move. Check the spelling.")
    if stat.S_ISLNK(found.st_mode):
        raise AlreadyThere(f"{path!r} is a symbolic link. Move what it leads to.")
    if place.real == target.real:
        raise AlreadyThere(f"{path!r} already has this path. Give another one.")
    if (*target.folder, target.name)[: len(place.folder) + 1] == (*place.folder, place.name):
        raise BadPath(f"{to!r} lies within {path!r} itself.", "Choose another folder.")
    return place, target, stat.S_ISDIR(found.st_mode)


def _plan(
    disk: Disk, moved: Mapping[str, str], references: References
) -> tuple[list[PlannedEdit], list[Skipped], list[Skipped]]:
    """Returns the edits to make, in order; the files that cannot be changed; and the links that cannot."""
    mount = disk.vault.mount_of(next(iter(moved)))
    names = {link_name(path) for pair in moved.items() for path in pair}
    inner = {disk.vault.split(old)[1]: disk.vault.split(new)[1] for old, new in moved.items()}
    links = _LinkUpdate(references, mount, inner)
    texts = (path for path in [*moved, *references.sources(names)] if path.lower().endswith((".md", ".canvas")))
    own = [path for path in texts if disk.vault.mount_of(path) == mount]
    plans, skipped = disk.plans(own, lambda path, text: links.updated(disk.vault.split(path)[1], text), moved)
    unwritten = [Skipped(mount.path(inner.get(path, path)), why) for path, why in links.unwritten.items()]
    return plans, skipped, unwritten


class _LinkUpdate:
    """Updates the links in the texts of notes and canvases. All paths are within the vault."""

    def __init__(self, references: References, mount: Mount, moved: Mapping[str, str]) -> None:
        self._references = references
        self._prefix = mount.path("x")[:-1]
        self._moved = moved
        self._before, self._after = cache(self._find), cache(self._find_after)  # By name, the files then.
        self.unwritten: dict[str, str] = {}  # By file, the links that will not lead where they led.
        self._new: dict[str, list[str]] = {}
        for path in moved.values():
            self._new.setdefault(link_name(path), []).append(path)

    def updated(self, source: str, text: str) -> str:
        """Returns the text of a file after the move. Raises `NotText` if it has too many links."""
        if sum(map(text.count, ("[[", "](", "]:"))) > _MOST_IN_FILE:
            why = f"It may have more than {_MOST_IN_FILE:,} links, which are too many to look at. Edit them by hand."
            raise NotText(why)
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
        dead = [
            link
            for link, other, goal in pairs
            if goal and (_leads(other, there, self._after), other.subpath) != (goal, link.subpath)
        ]
        if dead:
            shown = [f"{text[each.start : each.end][:_LONGEST_LINK]} (line {each.line})" for each in dead[:_MOST_LINKS]]
            more = f", and {len(dead) - _MOST_LINKS:,} more" if len(dead) > _MOST_LINKS else ""
            why = f"{', '.join(shown)}{more} could not be rewritten. Edit by hand where it leads."
            self.unwritten[source] = why
        return new

    def _target(self, source: str, link: NoteLink) -> str | None:
        """Returns the new target of a link; None if it can stay."""
        goal = self._goal(link, source)
        if goal is None or link.kind == "canvas":
            return goal
        there = self._moved.get(source, source)
        # Other programs have only one rule: a link is the path from its note.
        markdown, before = link.kind in MARKDOWN, _leads(link, source, self._before)
        relative = markdown and normpath(join(dirname(source), link.target)) == before
        kept = not relative or normpath(join(dirname(there), link.target)) == goal
        if _leads(link, there, self._after) == goal and kept:
            return None
        relative = relative or link.target.startswith(("./", "../"))
        style: Style = "relative" if relative else "absolute" if "/" in link.target else "shortest"
        return rewritten(link, goal, there, self._after, style)

    def _goal(self, link: NoteLink, source: str) -> str | None:
        """Returns the path after the move of the file that a link leads to."""
        path = _leads(link, source, self._before)
        return None if path is None else self._moved.get(path, path)

    def _find(self, name: str) -> SameName:
        known = self._references.candidates(name)
        return SameName(path.removeprefix(self._prefix) for path in known if path.startswith(self._prefix))

    def _find_after(self, name: str) -> SameName:
        kept = [path for path in self._before(name) if path not in self._moved]
        return SameName([*kept, *(path for path in self._new.get(name, ()) if path not in kept)])


def _leads(link: NoteLink, source: str, candidates: Candidates) -> str | None:
    # Files on a canvas are always named from the vault's folder.
    target = f"/{link.target}" if link.kind == "canvas" else link.target
    return resolve(target, source, candidates) if link.target else None


def delete(disk: Disk, path: str, *, if_match: str = "", recursive: bool = False) -> outcomes.FileDeleted:
    """Moves a file or folder to the trash; see `VaultWriter.delete`."""
    with (
        disk.everything(),
        explained(path, "deleted"),
        ExitStack() as stack,
        disk.journal.operation(f"Deleted {path}") as operation,
    ):
        place = disk.place(path, follow=False)
        found = folder = None
        with suppress(FileNotFoundError):
            folder = stack.enter_context(place.enter())
            folder.lock()
            found = folder.stat(place.name)
        if found is None or folder is None:
            raise NotThere(f"There is nothing at {path!r} to delete. Check the spelling.")
        is_folder = stat.S_ISDIR(found.st_mode)
        _check_match(disk, place, if_match, folder)
        if is_folder and not recursive:
            with OpenFolder(place.mount.root, (*place.folder, place.name)) as inside:
                if names := inside.names():
                    many = f"it has {len(names)} entries. Set recursive=true to delete all."
                    raise AlreadyThere(f"The folder {place.path!r} is not empty: {many}")
        touched = _files_in(disk, place) if is_folder else [place.real]
        trash = put_in_trash(place, folder, operation, is_folder=is_folder)
        return outcomes.FileDeleted(path, trash, tuple(touched))


def _check_match(disk: Disk, place: OpenedFile, if_match: str, folder: OpenFolder) -> None:
    """Refuses a file that is not the version the caller has read (see `check_version`), and a version of a folder."""
    if not if_match:
        return
    if (found := folder.stat(place.name)) and stat.S_ISDIR(found.st_mode):
        raise outcomes.NotText(f"{place.path!r} is a folder, and folders have no version. Leave out if_match.")
    check_version(disk.texts, place.path, if_match, disk.look(folder, place))


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


def put_in_trash(
    place: OpenedFile, folder: OpenFolder, operation: Operation, *, is_folder: bool = False, name: str = ""
) -> str:
    """Moves a file, called `name` for now, to the trash: with its folders if possible. Returns its path there."""
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
            for free in (each for each in candidates if trash.stat(each) is None):
                inner = "/".join((*names, free))
                operation.intend(Step(place.real, place.mount.path(inner)))
                if move_to_free_name(folder, name or place.name, trash, free):
                    return inner
    raise AlreadyThere(f"There is no room for {place.path!r} in the trash. Empty the folder '{TRASH}' of the vault.")

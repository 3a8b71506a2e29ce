"""Moving a file or folder, and updating the links to it.

Only links that would lead elsewhere afterwards, or nowhere, are rewritten, in the style they were written in: by name,
relative to the note, or from the vault's folder. That covers links to the moved files, links in them, and links that a
file with the same name would catch. All new texts are made before anything is moved; if one cannot be written,
everything is put back. A note that another program changes in the meantime is left alone and reported.
"""

import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidings.vault.files.content import FileContent
from tidings.vault.files.disk import Disk, OpenedFile
from tidings.vault.files.folders import OpenFolder
from tidings.vault.files.outcomes import AlreadyThere, Conflict, FileMoved, NotThere, Skipped, WriteFailed, explained
from tidings.vault.files.paths import BadPath, Mount
from tidings.vault.files.trash import check_match, files_in, take
from tidings.vault.notes import parse
from tidings.vault.notes.canvas import canvas_rewrite
from tidings.vault.notes.links import Style, link_name, resolve, rewrite, rewritten
from tidings.vault.notes.model import NoteLink, key


class References(Protocol):
    """The names and links in the index. Called in the thread that moves."""

    def sources(self, names: Collection[str], /) -> Iterable[str]:
        """Returns the paths of the notes and canvases with links to any of these names; see `link_name`."""
        ...

    def candidates(self, name: str, /) -> Sequence[str]: ...


def move(
    disk: Disk, path: str, to: str, references: References, *, if_match: str | None = None, dry_run: bool = False
) -> FileMoved:
    """Moves a file or folder; see `VaultWriter.move`."""
    with disk.everything():
        step = _check(disk, path, to)
        path, to = step.place.real, step.to.real  # Notes know nothing of symbolic links on the way.
        old = files_in(disk, step.place) if step.is_folder else [path]
        moved = {each: to + each.removeprefix(path) for each in old}
        plans, skipped = _plan(disk, moved, references)
        if dry_run:
            with explained(path, "moved"):
                _try(disk, step, if_match)
            where = {new: old for old, new in moved.items()}
            return FileMoved(path, to, (), tuple(where.get(plan.path, plan.path) for plan in plans), tuple(skipped))
        with explained(path, "moved"):
            there = _rename(disk, step, if_match)
        changed: list[str] = []
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
            raise WriteFailed(f"{path!r} was not moved, because of a note with links to it: {error} {state}") from error
        touched = dict.fromkeys([*moved, *moved.values(), *changed])
        return FileMoved(path, to, tuple(touched), tuple(changed), tuple(skipped))


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


def _rename(disk: Disk, step: _Step, if_match: str | None) -> OpenFolder:
    with ExitStack() as stack:
        here = stack.enter_context(step.place.enter())
        there = here if step.to.folder == step.place.folder else stack.enter_context(step.to.enter(create=True))
        for folder in sorted({here, there}, key=lambda folder: folder.place):  # Two programs lock in the same order.
            stack.enter_context(folder.locked())
        check_match(disk, here, step.place, if_match, is_folder=step.is_folder)
        if _is_same(here, step.place.name, there, step.to.name):
            here.rename(step.place.name, there, step.to.name)  # Only the case of letters changes.
        elif not take(here, step.place.name, there, step.to.name, is_folder=step.is_folder):
            raise _taken(step)
        return there


def _try(disk: Disk, step: _Step, if_match: str | None) -> None:
    """Refuses what `_rename` would refuse, and changes nothing."""
    with step.place.enter() as here:
        check_match(disk, here, step.place, if_match, is_folder=step.is_folder)
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

    def make(self, now: FileContent | None) -> str:
        if now is None or now.version != self.before.version:
            raise Conflict(self.path, self.before.version, now.version if now else None)
        return self.text

    def restore(self, now: FileContent | None) -> str:
        if now is None or now.text != self.text:
            raise Conflict(self.path, self.before.version, now.version if now else None)
        return self.before.text


def _undo(disk: Disk, step: _Step, written: Sequence[_Plan]) -> list[str]:
    """Puts everything back, and returns what could not be."""
    left: list[str] = []
    for plan in written:
        try:
            disk.change(disk.place(plan.path), plan.restore)
        except (OSError, ValueError):
            left.append(repr(plan.path))
    try:
        _rename(disk, _Step(step.to, step.place, step.is_folder), None)
    except (OSError, ValueError):
        left.append(repr(step.to.path))
    return left


def _plan(disk: Disk, moved: Mapping[str, str], references: References) -> tuple[list[_Plan], list[Skipped]]:
    """Returns the texts to write, in order, and the files that cannot be changed."""
    mount = disk.vault.mount_of(next(iter(moved)))
    names = {link_name(path) for pair in moved.items() for path in pair}
    inner = {disk.vault.split(old)[1]: disk.vault.split(new)[1] for old, new in moved.items()}
    updated = _rewriter(references, mount, inner)
    plans: list[_Plan] = []
    skipped: list[Skipped] = []
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
        text = updated(disk.vault.split(path)[1], content.text)
        if text == content.text:
            continue
        if content.problem:
            skipped.append(Skipped(path, f"{path!r} cannot be edited: {content.problem}."))
        else:
            plans.append(_Plan(moved.get(path, path), content, text))
    return plans, skipped


def _rewriter(references: References, mount: Mount, moved: Mapping[str, str]) -> Callable[[str, str], str]:
    """Returns a function that updates the links in the text of a note or canvas. All paths are within the vault."""
    prefix = mount.path("x")[:-1]
    new: dict[str, list[str]] = {}
    for path in moved.values():
        new.setdefault(link_name(path), []).append(path)

    def before(name: str) -> list[str]:
        return [path.removeprefix(prefix) for path in references.candidates(name) if path.startswith(prefix)]

    def after(name: str) -> list[str]:
        kept = [path for path in before(name) if path not in moved]
        return [*kept, *(path for path in new.get(name, ()) if path not in kept)]

    def updated(source: str, text: str) -> str:
        there = moved.get(source, source)

        def new_target(link: NoteLink) -> str | None:
            leads = resolve(link.target, source, before) if link.target else None
            if leads is None:
                return None
            leads = moved.get(leads, leads)
            if link.kind == "canvas":
                return leads if leads != link.target else None
            if resolve(link.target, there, after) == leads:
                return None
            relative = link.target.startswith(("./", "../"))
            style: Style = "relative" if relative else "absolute" if "/" in link.target else "shortest"
            return rewritten(link, leads, there, after, style)

        if source.lower().endswith(".canvas"):
            return canvas_rewrite(text, new_target)
        return rewrite(text, parse.parse(text, source).links, new_target)

    return updated

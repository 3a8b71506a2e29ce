"""The uses of the journal: finishing what a killed process has begun, and undoing what was done.

An operation that had changed nothing is dropped. One that had is finished: files that it has not reached yet get their
new contents, unless somebody has changed them since. To undo an operation, all of its files have to be as it left them.
"""

import logging
import os
from contextlib import suppress
from typing import Literal

from tidings._kit.diff import common_start
from tidings._kit.text import counted
from tidings.vault.files import outcomes
from tidings.vault.files.disk import LARGEST_READ, Disk, OpenedFile
from tidings.vault.files.folders import exchange, move_to_free_name
from tidings.vault.files.journal import JournalEntry, Operation, Step
from tidings.vault.files.moving import put_in_trash
from tidings.vault.files.outcomes import Undone, explained

logger = logging.getLogger(__name__)

Reached = Literal["before", "after", "torn", "neither"]  # How far a step has come.

_LISTED = 3  # Operations that are named if it is not clear which one is meant.


def recover(disk: Disk) -> list[str]:
    """Finishes or drops the operations of processes that were killed. Returns what was done, in words."""
    said: list[str] = []
    disk.journal.open()
    for operation in disk.journal.interrupted():
        try:
            with disk.everything():
                said.append(_recover(disk, operation))
        except (OSError, ValueError) as error:
            operation.end("begun")  # The next start tries again.
            said.append(f"{operation.did!r} was interrupted, and cannot be finished now: {error}")
        logger.warning("%s", said[-1])
    disk.journal.recovered += said
    return said


def _recover(disk: Disk, operation: Operation) -> str:
    steps = list(operation.steps.values())
    for step in steps:
        if not step.to:
            _clear(disk, disk.at(step.path), step, operation)
    reached = [_reached(disk, step) for step in steps]
    if not {"after", "torn"}.intersection(reached):
        operation.end(None)
        return f"{operation.did!r} was interrupted before it had changed anything, and was dropped."
    left: list[str] = []
    for number, (step, how) in enumerate(zip(steps, reached, strict=True)):
        if how in ("before", "torn"):
            now = step if how == "before" else step._replace(before=_content(disk, step.path))
            try:
                disk.make_step(now, Operation("", token=operation.token))
            except (OSError, ValueError):
                left.append(step.path)
        elif how == "neither" and not any(later.to for later in steps[number + 1 :]):  # Else it has moved on.
            left.append(step.path)
    operation.end("recovered")
    finished = f"{operation.did!r} was interrupted, and has been finished ({counted(len(steps), 'file')})."
    changed = f" Somebody has changed these since, so that they were left as they are: {', '.join(left)}."
    return finished + (changed if left else "")


def _reached(disk: Disk, step: Step) -> Reached:
    if step.to:
        here, there = disk.at(step.path).stat(), disk.at(step.to).stat()
        if here and there and os.path.samestat(here, there) and here.st_nlink > 1:
            # Killed between the two halves of a rename, where the system cannot rename in one step.
            place = disk.at(step.path)
            with place.enter() as folder:
                folder.unlink(place.name)
            return "after"
        return "before" if here else "after" if there else "neither"
    content = _content(disk, step.path)
    if content == step.after:
        return "after"
    if content == step.before:
        return "before"
    if content is not None and step.before is not None:
        # It may have been changed in place: its beginning is new, and the rest is old.
        new = common_start(content, step.after)
        if new and content[new:] == step.before[new:] and len(content) == max(new, len(step.before)):
            return "torn"
    return "neither"


def _clear(disk: Disk, place: OpenedFile, step: Step, operation: Operation) -> None:
    """Removes the temporary files of a killed write. One that has what another program saved gets its name back."""
    try:
        folder = place.enter()
    except FileNotFoundError:
        return
    with folder:
        folder.lock()
        for hidden in (f"{operation.hidden(step.path)}.old", operation.hidden(step.path)):
            if folder.stat(hidden) is None:
                continue
            data, _ = folder.read(hidden, LARGEST_READ)
            if folder.stat(place.name) is None and step.before is not None and not step.after.startswith(data):
                move_to_free_name(folder, hidden, folder, place.name)
            elif data == step.before or step.after.startswith(data):
                folder.unlink(hidden)
            elif _content(disk, place.path) == step.after:
                exchange(folder, hidden, place.name)
                folder.unlink(hidden)
            else:
                put_in_trash(place, folder, Operation(""), name=hidden)


def _content(disk: Disk, path: str) -> bytes | None:
    place = disk.at(path)
    with suppress(FileNotFoundError, NotADirectoryError), place.enter() as folder:
        return content.data if (content := disk.look(folder, place)) else None
    return None


def undo(disk: Disk, which: str) -> Undone:
    """Undoes an operation; see `VaultWriter.undo`."""
    with disk.everything():
        entry = _find(disk, which.strip())
        try:
            steps = entry.steps()
        except (OSError, ValueError):
            raise outcomes.NotThere(f"{entry.did!r} is no longer known. Undo it by hand.") from None
        placed = [(step, _path_after(step.path, steps[number + 1 :])) for number, step in enumerate(steps)]
        # A step that could not be made, of a file that may not be written, for example, need not be undone.
        made = [(step, path) for step, path in placed if step.before is None or _content(disk, path) != step.before]
        steps = [step for step, _ in made]
        if problems := [problem for step, path in made if (problem := _in_the_way(disk, step, path))]:
            cure = "Undo it by hand: vault://history?mode=full shows what was changed."
            raise outcomes.AlreadyThere(f"{entry.did!r} cannot be undone. {' '.join(problems[:5])} {cure}")
        with disk.journal.operation(f"Undid: {entry.did}") as operation:
            with explained(entry.did, "undone"):
                operation.intend(*(step.back for step in reversed(steps) if step.before is not None or step.to))
            back: list[Step] = []
            try:
                back.extend(_undo_step(disk, step, operation) for step in reversed(steps))
            except (OSError, ValueError) as error:
                left = disk.put_back(back, operation)
                unable = f"These are undone all the same: {', '.join(left)}." if left else "Everything is as it was."
                raise outcomes.WriteFailed(f"{entry.did!r} was not undone: {error} {unable}") from error
        disk.journal.mark(entry, "undone")
        touched = dict.fromkeys(path for step in steps for path in (step.path, step.to) if path)
        return Undone(entry.did, tuple(path for path in touched if disk.vault.visible(path)))


def _undo_step(disk: Disk, step: Step, operation: Operation) -> Step:
    """Undoes a step. Returns the step that did it. A file that was created goes to the trash."""
    if step.to or step.before is not None:
        disk.make_step(step.back, operation)
        return step.back
    place = disk.at(step.path)
    with explained(step.path), place.enter() as folder:
        folder.lock()
        return Step(step.path, place.mount.path(put_in_trash(place, folder, operation)))


def _find(disk: Disk, which: str) -> JournalEntry:
    """Returns the operation that is meant. Raises `NotThere`."""
    entries = [entry for entry in disk.journal.entries() if entry.state in ("done", "recovered")]
    if which:
        found = (entry for entry in entries if entry.id == which or entry.changes(which))
        why = f"No recorded write has the id {which!r}, or changed a file with this path."
    else:
        mine = disk.journal.mine
        found = (entry for entry in entries if entry.id in mine and not entry.did.startswith("Undid: "))
        why = "This server has written nothing that could be undone."
    if entry := next(found, None):
        return entry
    last = "; ".join(f"{entry.id}: {entry.did}" for entry in entries[:_LISTED])
    raise outcomes.NotThere(f"{why} {f'The last writes, by id: {last}.' if last else 'Nothing is recorded.'}")


def _path_after(path: str, steps: list[Step]) -> str:
    """Returns the path that a file has after some steps."""
    for step in steps:
        if step.to and (path == step.path or path.startswith(f"{step.path}/")):
            path = step.to + path.removeprefix(step.path)
    return path


def _in_the_way(disk: Disk, step: Step, path: str) -> str:
    """Returns why a step cannot be undone, or an empty text. Its file has this path now."""
    if not step.to:
        now = _content(disk, path)
        problem = f"{step.path!r} {'no longer exists' if now is None else 'was changed since'}."
        return "" if now == step.after else problem
    if not (there := disk.at(step.to).stat()):
        return f"{step.to!r} no longer exists."
    here = disk.at(step.path).stat()
    if here and not (os.path.samestat(here, there) and here.st_nlink > 1):
        return f"There is something else at {step.path!r} now: move or delete it first."
    return ""

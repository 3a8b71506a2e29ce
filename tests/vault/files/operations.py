"""Operations on a vault, for processes that are killed in the middle of one."""

from multiprocessing.synchronize import Event
from pathlib import Path

from tests.vault.files.test_journal import writer_of
from tests.vault.files.test_moving import Known
from tidings.vault.files import saves
from tidings.vault.files.paths import Vault


def operate(root: Path, operation: str, exchange: bool, begun: Event) -> None:
    if not exchange:
        saves._rename = None
    writer = writer_of(root)
    known = Known(Vault([root]))
    begun.set()
    match operation:
        case "move":
            writer.move("Target.md", "deep/down/Moved.md", references=known)
        case "move a folder":
            writer.move("notes", "elsewhere/kept", references=known)
        case "rename_tag":
            writer.rename_tag("todo", "task", sorted(known.files))
        case "delete":
            writer.delete("notes", recursive=True)
        case "undo":
            writer.undo("Target.md")
        case _:
            for path in sorted(known.files):
                writer.write(path, f"new text of {path}\n" * 2000, overwrite=True)

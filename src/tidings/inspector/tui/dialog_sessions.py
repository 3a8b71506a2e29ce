"""The sessions that are kept: listed, named, exported, deleted."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from tidings.inspector.journal import Journal
from tidings.inspector.journal_file import Unusable
from tidings.inspector.journal_sessions import (
    SavedSession,
    delete_session,
    list_sessions,
    read_session,
    rename_session,
)
from tidings.inspector.transfer import export_session
from tidings.inspector.tui.desk import desk_of
from tidings.inspector.tui.dialogs import AskLine, Confirm, Dialog
from tidings.inspector.tui.drawing import Line
from tidings.inspector.tui.feeds import Table
from tidings.inspector.tui.inks import Inks
from tidings.inspector.tui.rows import RowList
from tidings.inspector.tui.words import counted, one_line, size

if TYPE_CHECKING:
    from tidings.inspector.tui.app import InspectorApp

NOTHING_KEPT = "Nothing of this session is kept: it was started with --no-journal, or its file cannot be written."


class Sessions(Dialog[None]):
    """What is kept, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "name", "Name", show=False),
        Binding("e", "export", "Export", show=False),
        Binding("d", "delete", "Delete", show=False),
    ]
    DEFAULT_CSS = """
    Sessions RowList { height: auto; max-height: 24; min-height: 4; margin: 1 0; }
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.table: Table[SavedSession] = Table(lambda each: each.id, session_text)
        self.list = RowList(self.table, self._draw, empty="Looking.", height=2)

    @property
    def _desk(self) -> "InspectorApp":
        return desk_of(self)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("[b]Sessions that are kept[/]")
            yield self.list
            yield Static(f"m names, e exports, d deletes the chosen one.  {self._journal.path}", classes="soft")

    def on_mount(self) -> None:
        self.list.focus()
        self._desk.attempt(self._look())

    async def _look(self) -> None:
        found = await in_thread(lambda: (self._journal.flush(1.0), list_sessions(self._journal.path))[1])
        self.table.update(found)
        self.list.empty = "None yet."
        self.list.take()

    def _draw(self, each: SavedSession, inks: Inks) -> list[tuple[Line, Line]]:
        state = "this one" if each.id == self._journal.session else "runs" if each.running else ""
        first: Line = [(one_line(each.title or f"Session {each.id}"), inks["ink" if each.title else "soft"])]
        told = f"{when(each.began)}   {counted(each.records, 'record')}, {size(each.bytes)}   "
        servers = one_line(", ".join(each.servers) or "no server")
        return [(first, [(state, inks["accent"])]), ([(told, inks["faint"]), (servers, inks["soft"])], [])]

    def action_name(self) -> None:
        """Give the chosen one a name."""
        if (chosen := self.list.chosen) is not None:
            name_session(self._desk, self._journal, chosen.id, chosen.title or "", self._again)

    def action_export(self) -> None:
        """Write the chosen one to a file."""
        if (chosen := self.list.chosen) is not None:
            export_to_file(self._desk, self._journal, chosen.id)

    def action_delete(self) -> None:
        """Delete the chosen one, if that is meant."""
        if (chosen := self.list.chosen) is None:
            return

        async def delete() -> None:
            await in_thread(lambda: delete_session(self._journal.path, chosen.id))
            await self._look()

        def confirmed(sure: bool | None) -> None:
            if sure:
                self._desk.attempt(delete())

        name = one_line(chosen.title or f"session {chosen.id}")
        self._desk.push_screen(
            Confirm(f"Delete {name} and its {counted(chosen.records, 'record')}?", "deletes it"), confirmed
        )

    def _again(self) -> None:
        self._desk.attempt(self._look())


async def in_thread(run: Callable[[], Any]) -> Any:
    """Do this beside everything else.

    Raises:
        OSError: The journal cannot be used.
    """
    try:
        return await asyncio.to_thread(run)
    except Unusable as error:
        raise OSError(f"The journal cannot be used: {error}") from None


def name_session(
    desk: "InspectorApp", journal: Journal, session: int, title: str = "", then: Callable[[], None] | None = None
) -> None:
    """Ask for a name, and give it to a session."""

    async def name(line: str) -> None:
        await in_thread(lambda: (journal.flush(1.0), rename_session(journal.path, session, line[:200])))
        desk.notify("Named.", timeout=2)
        if then is not None:
            then()

    desk.push_screen(
        AskLine("A name for the session, to find it again", title),
        lambda line: desk.attempt(name(line)) if line else None,
    )


def export_to_file(desk: "InspectorApp", journal: Journal, session: int) -> None:
    """Ask for a file that is not there yet, and write a session to it."""

    async def export(path: Path) -> None:
        records = await in_thread(
            lambda: (journal.flush(2.0), export_session(read_session(journal.path, session), path))[1]
        )
        desk.notify(f"{counted(records, 'record')} in {one_line(path)}", timeout=6, markup=False)

    def check(line: str) -> str:
        path = Path(line).expanduser()
        if not path.parent.is_dir():
            return f"There is no folder {path.parent}."
        return f"There is a file {path} already. Choose another name." if path.exists() else ""

    desk.push_screen(
        AskLine(
            "Export the session as JSON Lines, to this file",
            f"tidings-session-{session}.jsonl",
            "Enter writes it: secrets are masked in it. tidings mock FILE serves it.",
            check,
        ),
        lambda line: desk.attempt(export(Path(line).expanduser())) if line else None,
    )


def when(at: float) -> str:
    """A day and a time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def session_text(each: SavedSession) -> str:
    """What a filter looks in."""
    return f"{each.title or ''} {' '.join(each.servers)}"

"""The sample vault: a dozen notes of a small bakery in a temporary folder, and their edits.

The notes are in `vault/`. Names such as `{today}` in their paths and texts become dates, so that the daily notes are of
this week.

This file is also a program: `python sample.py FOLDER` removes the folder once its standard input has ended. The demo
holds the other end, which closes when it ends, even by `kill -9`. So this file imports the standard library alone.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

_SERVERS_SECONDS: Final = 2.0  # Until the servers of a killed demo have ended, which may still write to the folder


class StageFailed(Exception):
    """The demo cannot go on, for the reason in its text, which is not a fault of this program."""


@contextmanager
def writing() -> Generator[None]:
    """Turns an `OSError` into `StageFailed`."""
    try:
        yield
    except OSError as error:
        raise StageFailed(
            f"The demo cannot write to a temporary folder: {error.strerror or error}. "
            "Set TMPDIR to a folder that you may write to, on a disk with room."
        ) from None


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Makes a folder, and removes it at the end. Raises `StageFailed` if it cannot be made."""
    with writing():
        folder = Path(tempfile.mkdtemp(prefix="tidings-demo-")).resolve()
    with subprocess.Popen(  # noqa: S603 - this file, with a folder that was made here
        [sys.executable, "-I", "-S", __file__, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal goes to the demo alone.
    ):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


NOTES: Final = Path(__file__).parent / "vault"
PLAN: Final = "Projects/Launch plan.md"
ORDERS: Final = "Shop/Orders.md"
FLOUR: Final = "Shop/Flour.md"
PLAN_URI: Final = f"vault://note/{quote(PLAN)}"
ORDERS_URI: Final = f"vault://note/{quote(ORDERS)}"
FLOUR_URI: Final = f"vault://note/{quote(FLOUR)}"
OPEN_TASKS_URI: Final = "vault://search/task-todo:order"

_HEADING: Final = "## Before we open\n"
# New tasks of the plan, wishes of customers, remarks on the flour, and what the board of the site says.
TEXTS: Final[dict[str, list[Any]]] = json.loads(Path(__file__).with_name("sample.json").read_text("utf-8"))


class Sample:
    """The sample notes in `folder`."""

    def __init__(self, folder: Path, today: date) -> None:
        self.folder = folder
        self.plan = folder / PLAN
        days = {"{today}": 0, "{yesterday}": -1, "{next_week}": 7}
        self._dates = {name: str(today + timedelta(days=after)) for name, after in days.items()}
        self._tasks, self._wishes, self._remarks = (cycle(TEXTS[name]) for name in ("tasks", "wishes", "remarks"))
        self._away = count(1)

    def saved_at(self, path: str) -> float | None:
        try:
            return (self.folder / path).stat().st_mtime
        except OSError:
            return None

    def write(self) -> None:
        """Writes all notes. Raises `StageFailed` if there is no room for them."""
        with writing():
            for source in sorted(NOTES.rglob("*.md")):
                note = self.folder / self._dated(str(source.relative_to(NOTES)))
                note.parent.mkdir(parents=True, exist_ok=True)
                note.write_text(self._dated(source.read_text("utf-8")), "utf-8")
            settings = self.folder / ".obsidian"
            settings.mkdir(exist_ok=True)
            (settings / "daily-notes.json").write_text('{"folder": "Daily"}\n', "utf-8")

    def _dated(self, text: str) -> str:
        for name, day in self._dates.items():
            text = text.replace(name, day)
        return text

    def edit_plan(self) -> None:
        self._add_task(self._plan_text().replace("- [ ] ", "- [x] ", 1), next(self._tasks))

    def edit_while_away(self) -> str:
        words = f"Written while the server was away ({next(self._away)})"
        self._add_task(self._plan_text(), words)
        return words

    def _add_task(self, text: str, words: str) -> None:
        before, heading, after = text.partition(_HEADING)
        # The user may have removed the heading: the task goes to the end then.
        task = f"- [ ] {words}\n"
        made = f"{before}{heading}{task}{after}" if heading else f"{before.rstrip()}\n{task}"
        with writing():
            self.plan.parent.mkdir(parents=True, exist_ok=True)
            self.plan.write_text(made, "utf-8")

    def _plan_text(self) -> str:
        try:
            return self.plan.read_text("utf-8")
        except (OSError, ValueError):  # The user may have deleted it.
            return f"# Launch plan\n\n{_HEADING}"

    def take_order(self) -> None:
        self._append(ORDERS, f"- {datetime.now():%H:%M:%S} {next(self._wishes)}\n")  # noqa: DTZ005 - local time

    def edit_flour(self) -> None:
        self._append(FLOUR, f"- {next(self._remarks)}\n")

    def _append(self, path: str, line: str) -> None:
        with writing():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (self.folder / path).open("a", encoding="utf-8") as file:
                file.write(line)


if __name__ == "__main__":
    sys.stdin.read()
    if Path(sys.argv[1]).exists():
        time.sleep(_SERVERS_SECONDS)
        shutil.rmtree(sys.argv[1], ignore_errors=True)

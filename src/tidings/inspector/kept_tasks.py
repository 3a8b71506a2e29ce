"""`KeptTasks`: the tasks that go on at servers, in a file, so that the next run of the inspector follows them again."""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings._kit import files
from tidings._kit.bounded_json import as_dict, as_float, as_text, weigh

logger = logging.getLogger(__name__)

_MOST_KEPT: Final = 1_000  # Tasks of one server. The oldest beyond that are forgotten.
_LARGEST_ARGUMENTS: Final = 2**16
_LARGEST_FILE: Final = 2**27
_LOCK_SECONDS: Final = 5.0  # For which another inspector may be writing.
_GATHER: Final = 0.05  # Seconds between two writes, in which changes are gathered.


class KeptTask(NamedTuple):
    """A task that goes on, as far as the inspector knows."""

    id: str
    tool: str | None
    arguments: dict[str, Any]
    ends: float | None  #: The time until which the server keeps it. None: no limit.


class KeptTasks:
    """The tasks of all servers, in a file that only the user can read; without a path, none are kept.

    A server is known by its identity: an address or command, with its credentials, hashed. What is kept or dropped is
    written at once, by a thread: the file may be shared by several inspectors.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._changes: dict[tuple[str, str], KeptTask | None] = {}
        self._noted: dict[tuple[str, str], KeptTask] = {}
        self._writing: asyncio.Task[None] | None = None

    async def of(self, server: str) -> list[KeptTask]:
        """Returns the tasks of a server that it may still know, oldest first."""
        if self._path is None:
            return []
        await self.flush()
        kept = _servers(await asyncio.to_thread(files.read_json, self._path, _LARGEST_FILE)).get(server, {})
        now = time.time()
        return [each for each in kept.values() if each.ends is None or each.ends > now]

    def keep(self, server: str, task: KeptTask) -> None:
        if weigh(task.arguments, _LARGEST_ARGUMENTS) > _LARGEST_ARGUMENTS:
            task = task._replace(arguments={})  # They are only shown.
        if self._noted.get((server, task.id)) != task:
            self._noted[server, task.id] = task
            self._change(server, task.id, task)

    def drop(self, server: str, task_id: str) -> None:
        """Forgets a task that has ended."""
        self._noted.pop((server, task_id), None)
        self._change(server, task_id, None)

    async def flush(self) -> None:
        """Writes what was kept and dropped."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    def _change(self, server: str, task_id: str, task: KeptTask | None) -> None:
        if self._path is not None:
            self._changes[server, task_id] = task
            self._writing = self._writing or asyncio.create_task(self._write_soon(self._path), name="keeping tasks")

    async def _write_soon(self, path: Path) -> None:
        try:
            while self._changes:
                changes, self._changes = self._changes, {}
                await asyncio.to_thread(self._write, path, changes)
                await asyncio.sleep(_GATHER)
        finally:
            self._writing = None

    def _write(self, path: Path, changes: Mapping[tuple[str, str], KeptTask | None]) -> None:
        try:
            with files.editing_json(path, _LARGEST_FILE, _LOCK_SECONDS) as document:
                servers, now = _servers(document), time.time()
                for (server, task_id), task in changes.items():
                    kept = servers.setdefault(server, {})
                    kept.pop(task_id, None)
                    if task is not None:
                        kept[task_id] = task
                document["servers"] = {
                    server: {each.id: each._asdict() for each in last}
                    for server, kept in servers.items()
                    if (last := [each for each in kept.values() if each.ends is None or each.ends > now][-_MOST_KEPT:])
                }
        except OSError as error:
            logger.warning("tasks are not kept for the next run: %s cannot be written (%s)", path, error.strerror)


def _servers(document: dict[str, Any]) -> dict[str, dict[str, KeptTask]]:
    """Returns the tasks in the file by server. What is not a task is ignored."""
    return {
        server: {task_id: _task(task_id, as_dict(each)) for task_id, each in as_dict(kept).items()}
        for server, kept in as_dict(document.get("servers")).items()
    }


def _task(task_id: str, found: dict[str, Any]) -> KeptTask:
    return KeptTask(task_id, as_text(found.get("tool")), as_dict(found.get("arguments")), as_float(found.get("ends")))

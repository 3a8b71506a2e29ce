"""A running inspector: the page first, its session right after, and an end within a second.

On SIGINT or SIGTERM every stream is ended, and the servers that were started are stopped; what is left of them is
killed.

The browser opens the page through a file that only its user can read: every user can see the arguments of a program,
and the address of the page has the token in it.
"""

import asyncio
import html
import logging
import os
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tidings._kit.uvicorn_seam import HttpServer
from tidings.inspector.catalog import Catalog, ServerEntry
from tidings.inspector.http.app import make_app
from tidings.inspector.http.context import Guide, Inspector, Running, SavedCalls
from tidings.inspector.http.exchange import error_facts
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Key
from tidings.inspector.servers import SessionServers
from tidings.inspector.session import Session, stop_commands

logger = logging.getLogger(__name__)

_CLOSING_SECONDS: Final = 0.8  # Commands that have not ended after this time are killed.
_ENDING_SECONDS: Final = 1.0  # More for servers at a URL, which may take a while to end a session.
_WRITING_SECONDS: Final = 0.2


@dataclass(frozen=True)
class ServePlan:
    """The servers to inspect, and the files of the inspector."""

    given: tuple[ServerEntry, ...] = ()  # The servers of the command line.
    catalog: Path | None = None
    read_only: bool = False
    journal: Path | None = None  # The file of saved sessions. None: they are not saved.
    saved: Path | None = None  # The file of saved calls. None: they are lost at the end.
    # The variables for `${NAME}` in an entry.
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    connect: bool = True  # Connect to the servers of the command line at once.
    guide: Guide | None = None


class Serving:
    """One run of an inspector on a socket that listens at `host`. A client has `patience` seconds for a request."""

    def __init__(
        self, listening: socket.socket, key: Key, plan: ServePlan, *, host: str = "127.0.0.1", patience: float = 60.0
    ) -> None:
        self.inspector = Inspector(key, plan.guide)
        self._plan = plan
        self._listening = listening
        self._server = HttpServer(
            make_app(self.inspector, host=host),
            patience=patience,
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=None,  # As the command has set it.
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )

    def stop(self) -> None:
        """Ends the run in good order; at once if it is called again."""
        self._server.stop(at_once=self.inspector.stopping.is_set())
        self.inspector.stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Serves until `stop` is called, or a signal asks for it."""
        loop = asyncio.get_running_loop()
        handled = [signal.SIGINT, signal.SIGTERM] if signals else []
        for number in handled:
            with suppress(NotImplementedError):  # On Windows, KeyboardInterrupt ends the loop.
                loop.add_signal_handler(number, self.stop)
        session = asyncio.create_task(self._hold_session(), name="session of the inspector")
        try:
            await self._server.serve(self._listening)
        finally:
            self.inspector.stopping.set()
            await asyncio.gather(session, return_exceptions=True)
            for number in handled:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def _hold_session(self) -> None:
        session = Session(journal=self._plan.journal, environ=self._plan.environ)
        try:
            await self._start(session)
            await self.inspector.stopping.wait()
        finally:
            await _end(session)

    async def _start(self, session: Session) -> None:
        inspector, plan = self.inspector, self._plan
        try:
            await session.__aenter__()
            if session.journal is not None and session.journal.notice:
                logger.warning("%s", session.journal.notice)
            catalog = None if plan.catalog is None else Catalog(plan.catalog, read_only=plan.read_only)
            servers = SessionServers(session, catalog, plan.environ)
            running = Running(session, servers, PageFeed(session), SavedCalls(plan.saved))
            await servers.begin(plan.given, connect=plan.connect)
            inspector.running = running
            if plan.guide is not None:
                plan.guide.begin(session, partial(running.feed.mark_stale, "tour"))
        except Exception as error:
            logger.exception("The session of the inspector could not be started")
            inspector.failure = error_facts(error)


async def _end(session: Session) -> None:
    """Disconnects from all servers in the time there is, and kills what is left of them."""
    pids = session.pids
    killing = asyncio.get_running_loop().call_later(_CLOSING_SECONDS, stop_commands, pids, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSING_SECONDS + _ENDING_SECONDS):
            await session.aclose()
    killing.cancel()
    stop_commands(pids, signal.SIGKILL)
    if session.journal is not None:
        await asyncio.to_thread(session.journal.close, _WRITING_SECONDS)


def can_open(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Returns whether there is a screen for a browser. One in the terminal would be in the way."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return platform in ("darwin", "win32") or any(environ.get(name) for name in screens)


def make_redirect(url: str) -> Path:
    """Makes a file that leads to the page, readable for its user alone. Delete it once the page is open."""
    handle, name = tempfile.mkstemp(prefix="tidings-", suffix=".html")  # 0600
    address = html.escape(url, quote=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<title>Tidings</title><meta http-equiv="refresh" content="0;url={address}">'
            f'<p><a href="{address}">Open the inspector</a></p>\n'
        )
    return Path(name)


def open_page(redirect: Path) -> bool:
    """Opens the page in the user's browser, which may take a moment. Returns whether there is one."""
    try:
        return webbrowser.open(redirect.as_uri())
    except (webbrowser.Error, OSError):
        return False


def delete_redirect(redirect: Path) -> None:
    """Deletes the file, if it is still there."""
    with suppress(OSError):
        redirect.unlink()

"""An inspector that runs: the page first, its session right after, and an end within a second.

The SDK, which takes longer than everything else, is imported when the first server is connected to: the page is there,
and answers, before. On SIGINT or SIGTERM every stream is ended, servers that were started are stopped, and what is
left of them is killed.

Opening the page in a browser, without anybody else on this machine learning the token.

What a program is started with can be seen by every user. So the browser is given a file that only its user can read,
which leads on to the page; it is deleted once the page was entered, or after a while.
"""

import asyncio
import contextlib
import html
import logging
import os
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn

from tidings.inspector.catalog import Catalog
from tidings.inspector.http.api.calls import SavedCalls
from tidings.inspector.http.api.catalog import ServersApi
from tidings.inspector.http.app import make_app
from tidings.inspector.http.context import Inspector
from tidings.inspector.http.exchange import error_facts
from tidings.inspector.http.feed import PageFeed
from tidings.inspector.http.gate import Key
from tidings.inspector.http.patience import PatientProtocol
from tidings.inspector.session import Session, stop_commands

if TYPE_CHECKING:
    from tidings.inspector.catalog import ServerEntry


logger = logging.getLogger(__name__)

_CLOSING_SECONDS: Final = 0.8
"""For servers to end by themselves, and because they are asked to. What is left then is killed."""
_WRITING_SECONDS: Final = 0.2


@dataclass(frozen=True)
class ServePlan:
    """What to inspect, and what to keep of it."""

    given: "tuple[ServerEntry, ...]" = ()
    """The servers of the command line."""
    catalog: Path | None = None
    read_only: bool = False
    journal: Path | None = None
    """Where sessions are kept. None: nowhere."""
    saved: Path | None = None
    """Where saved calls are kept. None: nowhere."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What `${NAME}` in an entry stands for."""
    connect: bool = True
    """Whether the servers of the command line are connected to at once."""


class _Server(uvicorn.Server):
    """A server that leaves signals to others: the session has to end before the process does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class Serving:
    """One run of an inspector."""

    def __init__(self, listening: socket.socket, key: Key, plan: ServePlan, *, host: str = "127.0.0.1") -> None:
        self.inspector = Inspector(key)
        self._plan = plan
        self._listening = listening
        config = uvicorn.Config(
            make_app(self.inspector, host=host),
            lifespan="off",
            http=PatientProtocol,
            ws="none",
            log_config=None,
            log_level=None,  # As the log of the command says.
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)

    def stop(self) -> None:
        """End, soon. A second time: at once."""
        if self.inspector.stopping.is_set():
            self._server.force_exit = True
        self.inspector.stopping.set()
        self._server.should_exit = True

    async def run(self, *, signals: bool = True) -> None:
        """Serve until `stop` is called, or a signal asks for it."""
        loop = asyncio.get_running_loop()
        handled = [signal.SIGINT, signal.SIGTERM] if signals else []
        for number in handled:
            with contextlib.suppress(NotImplementedError):  # On Windows, KeyboardInterrupt ends the loop.
                loop.add_signal_handler(number, self.stop)
        session = asyncio.create_task(self._hold_session(), name="session of the inspector")
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            self.inspector.stopping.set()
            await asyncio.gather(session, return_exceptions=True)
            for number in handled:
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)

    async def _hold_session(self) -> None:
        session = Session(journal=self._plan.journal, environ=self._plan.environ)
        try:
            await self._fill(session)
            await self.inspector.stopping.wait()
        finally:
            await _end(session)

    async def _fill(self, session: Session) -> None:
        inspector, plan = self.inspector, self._plan
        try:
            await session.__aenter__()
            if session.journal is not None and session.journal.notice:
                logger.warning("%s", session.journal.notice)
            catalog = None if plan.catalog is None else Catalog(plan.catalog, read_only=plan.read_only)
            inspector.saved = SavedCalls(plan.saved)
            servers = inspector.servers = ServersApi(session, catalog, plan.environ)
            inspector.feed = PageFeed(session)
            await servers.begin(plan.given, connect=plan.connect)
            inspector.session = session
            if inspector.guide is not None:
                inspector.guide.begin(session, partial(inspector.feed.mark_stale, "tour"))
        except Exception as error:
            logger.exception("The inspector's session could not be started")
            inspector.failure = error_facts(error)


async def _end(session: Session) -> None:
    """Disconnect from everything within the time there is; then make sure that nothing is left."""
    pids = session.pids
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSING_SECONDS):
            await session.aclose()
    stop_commands(pids, signal.SIGKILL)
    if session.journal is not None:
        await asyncio.to_thread(session.journal.close, _WRITING_SECONDS)


def can_open(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether there is a screen to open a browser on: one in the terminal would be in the way."""
    return platform in ("darwin", "win32") or bool(
        environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("BROWSER")
    )


def doorway(url: str) -> Path:
    """A file that leads to the page, readable for its user alone."""
    handle, name = tempfile.mkstemp(prefix="tidings-", suffix=".html")  # 0600
    address = html.escape(url, quote=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<title>Tidings</title><meta http-equiv="refresh" content="0;url={address}">'
            f'<p><a href="{address}">Open the inspector</a></p>\n'
        )
    return Path(name)


def open_page(door: Path) -> bool:
    """Have the user's browser open it; returns whether one was found. May take a moment."""
    try:
        return webbrowser.open(door.as_uri())
    except (webbrowser.Error, OSError):
        return False


def close_door(door: Path) -> None:
    """Delete it."""
    with suppress(OSError):
        door.unlink()

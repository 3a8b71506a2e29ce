"""Everything of uvicorn's that is not public API, and the servers that need it.

| part | uvicorn's name | without it |
|---|---|---|
| leave signals to the program | `Server.capture_signals` | `HttpServer` raises `UvicornChanged` |
| stop at once | `Server.server_state.connections`, and the `transport` of each | the stop waits for them |
| hang up on slow senders | `H11Protocol`: `conn`, `loop`, `transport` | a warning; nobody is hung up on |
| hang up on senders of endless headers | `HttpToolsProtocol`: its callbacks, `transport` | they are kept in memory |
| write a chunk past `send` | `RequestResponseCycle` of httptools: its state | `send` is called |
| the connection under a response | `transport` of the object that `send` belongs to | None |
| the number of worker processes | the arguments of the process that uvicorn started | 1 |

`tests/_kit/test_uvicorn_seam.py` pins each of them. uvicorn is imported late: a server over standard input and output
starts without it.
"""

import asyncio
import contextlib
import inspect
import logging
import multiprocessing
import re
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from operator import attrgetter
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import uvicorn

logger = logging.getLogger(__name__)

_WEB_SERVERS: Final = {"uvicorn", "gunicorn", "hypercorn", "granian"}


class UvicornChanged(RuntimeError):
    """The installed version of uvicorn lacks something without which a server cannot work."""


class HttpServer:
    """Serves an ASGI app with uvicorn; `options` are further arguments of `uvicorn.Config`.

    With `handle_signals`, uvicorn handles SIGINT and SIGTERM, and raises the signal again at the end. Otherwise the
    program around it does, and calls `stop`. A client is hung up on if its headers take more than 64 KB, or if it takes
    longer than `patience` seconds for its first request, or from the first byte of a request to its last.
    """

    def __init__(
        self, app: Any, *, handle_signals: bool = False, patience: float | None = None, **options: Any
    ) -> None:
        import uvicorn  # noqa: PLC0415 - see the module's docstring

        options.setdefault("timeout_graceful_shutdown", 3 if handle_signals else 1)  # To end 20,000 streams takes 3 s.
        options.setdefault("http", _bounded_protocol() if patience is None else _patient_protocol(patience))
        options.setdefault("ws", "none")  # MCP has no use for WebSockets, whose library takes time to load.
        config = uvicorn.Config(app, **options)
        self._server = uvicorn.Server(config) if handle_signals else _without_signals(config)

    async def serve(self, listening: socket | None = None) -> None:
        """Serves until `stop` is called, on this socket or as `options` say. Raises `SystemExit` if it cannot start."""
        await self._server.serve(sockets=None if listening is None else [listening])

    def stop(self, *, at_once: bool = False) -> None:
        """Lets `serve` return: after open requests have ended, or `at_once` without them."""
        self._server.should_exit = True
        if at_once:
            self._server.force_exit = True
            # From Python 3.12 on, a server counts as closed only when all its connections are.
            for connection in tuple(self._server.server_state.connections):
                if (transport := getattr(connection, "transport", None)) is not None:
                    transport.abort()


def worker_count() -> int:
    """Returns how many worker processes the web server has that runs this one: uvicorn, or one with `--workers`."""
    started_with: dict[str, Any] = getattr(multiprocessing.current_process(), "_kwargs", {})
    if count := getattr(started_with.get("config"), "workers", None):
        return int(count)
    found = re.search(r"\0(?:--workers|-w)[=\0]?(\d+)\0", "\0".join([*sys.argv, ""]))
    return int(found[1]) if found and Path(sys.argv[0]).stem in _WEB_SERVERS else 1


def _without_signals(config: "uvicorn.Config") -> "uvicorn.Server":
    import uvicorn  # noqa: PLC0415 - see the module's docstring

    if not hasattr(uvicorn.Server, "capture_signals"):
        raise UvicornChanged(
            f"uvicorn {uvicorn.__version__} has no Server.capture_signals, so that it would take the signals of this "
            "program. Install a version of uvicorn that Tidings was tested with: see its dependencies."
        )

    class QuietServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    return QuietServer(config)


def _bounded_protocol() -> Any:
    """Returns uvicorn's protocol on httptools, which hangs up on a client that sends headers without end."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415 - see the docstring
    except ImportError:
        return "auto"  # H11 has a limit of its own.

    class BoundedProtocol(HttpToolsProtocol):
        _head = 0  # Bytes that came since something was complete.

        def data_received(self, data: bytes) -> None:
            self._head += len(data)
            super().data_received(data)
            if self._head > _MOST_HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

        def on_headers_complete(self) -> None:
            self._head = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._head = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._head = 0
            super().on_message_complete()

    return BoundedProtocol


_MOST_HEAD_BYTES: Final = 65_536
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def _patient_protocol(seconds: float) -> Any:  # noqa: C901 - a class of small methods
    """Returns uvicorn's protocol on h11, which hangs up on a client that sends half a request and waits."""
    try:
        import h11  # noqa: PLC0415 - see the module's docstring
        from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - see the module's docstring
    except ImportError:
        logger.warning("This version of uvicorn has no H11Protocol: clients that send half a request are kept.")
        return "auto"

    class PatientProtocol(H11Protocol):
        _incomplete: tuple[object, ...] = (h11.IDLE, h11.SEND_BODY)
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            try:
                _PROTOCOL_STATE(self)
            except AttributeError:
                logger.warning("This version of uvicorn hides its state: clients that send half a request are kept.")
                self._incomplete = ()
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end_patience()
            super().connection_lost(exc)

        def _look(self) -> None:
            if not self._incomplete or self.conn.their_state not in self._incomplete:
                self._end_patience()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self.transport.abort)

        def _end_patience(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return PatientProtocol


_PROTOCOL_STATE: Final = attrgetter("conn.their_state", "loop.call_later", "transport.abort")


# Writing to a response past `send`

# Writing through uvicorn's `send` takes a message, a coroutine and a list, more than everything else that a delivery
# needs. With httptools, all that comes to handing the event, as one HTTP chunk, to the connection. If the response is
# in the state in which `send` would do just that, this is done directly. Otherwise `send` is called, and decides.

_CHUNKING: Final = ("uvicorn.protocols.http.httptools_impl", "RequestResponseCycle")
_STATE: Final = (
    "scope response_started response_complete chunked_encoding disconnected flow.write_paused transport.write"
)
_RESPONSE_STATE: Final = attrgetter(*_STATE.split())


def is_servers_own(send: object) -> bool:
    """Returns whether `send` is the web server's own, not a middleware's that may hold a cancel scope meanwhile."""
    return type(getattr(send, "__self__", None)).__module__.startswith("uvicorn.protocols.")


def chunked_response(send: object) -> Any:
    """Returns the response that `send` has begun, if its chunks can be handed to its connection; else None."""
    owner: object = getattr(send, "__self__", None)
    if (type(owner).__module__, type(owner).__qualname__) != _CHUNKING:
        return None
    response: Any = owner
    try:
        _RESPONSE_STATE(response)
    except AttributeError:
        return None
    # None of this changes once a response has begun.
    chunked = response.response_started and response.chunked_encoding is True and response.scope["method"] != "HEAD"
    return response if chunked else None


def chunk_taker(response: Any) -> Callable[[bytes], None] | None:
    """Returns the function that writes a chunk of a `chunked_response`; None if `send` would do anything else now."""
    if response.disconnected or response.response_complete or response.flow.write_paused:
        return None
    return response.transport.write


def as_chunk(data: bytes) -> bytes:
    """Returns `data`, which is not empty, as one chunk of an HTTP response."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def begun(sending: Any) -> asyncio.Future[None] | None:
    """Runs a `send` until it has to wait, at no cost of a task; a rest runs in the task that is returned."""
    try:
        waiting_for = sending.send(None)
    except StopIteration:
        return None

    async def finish() -> None:
        await _resume(sending, waiting_for)

    return asyncio.ensure_future(finish())


@types.coroutine
def _resume(sending: Coroutine[Any, Any, None], waiting_for: Any) -> Generator[Any, Any, None]:
    """Continues a coroutine that has run its first step and waits for `waiting_for`."""
    while True:
        try:
            value = yield waiting_for
        except BaseException as error:  # noqa: BLE001 - thrown on, into the coroutine it is meant for
            step: tuple[Callable[[Any], Any], Any] = (sending.throw, error)
        else:
            step = (sending.send, value)
        try:
            waiting_for = step[0](step[1])
        except StopIteration:
            return


_MOST_CALLS: Final = 64  # Functions of middleware that are looked through for the web server's own


def transport_under(*calls: object) -> asyncio.Transport | None:
    """Returns the connection under `send` or `receive`, where the web server shows it, also through middleware."""
    found = list(calls)
    for call in found:  # It grows meanwhile.
        owner = getattr(call, "__self__", None)
        transport = getattr(owner, "transport", None)
        if callable(getattr(transport, "abort", None)):
            return transport
        enclosed: list[object] = [getattr(owner, "receive", None)]
        for cell in getattr(call, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # It is empty.
                enclosed.append(cell.cell_contents)
        for inner in enclosed:
            if inspect.isroutine(inner) and inner not in found and len(found) < _MOST_CALLS:
                found.append(inner)
    return None

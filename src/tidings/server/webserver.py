"""The web server under a borrowed stream, as far as it can be seen.

Uvicorn's `send` is a method of an object that holds the connection and the state of the response. To write an event
through it takes a message, a coroutine and a list, which costs more than all else that a delivery needs before the
system is called. With httptools all of that comes to one call in the end: the event, as one HTTP chunk, is handed to
the connection. So where the response is in the state in which `send` would do just that, the chunk is handed over
directly (`chunk_taker`). In every other state (the socket is full, the reader is gone, the response is over), with any
other web server, and with middleware in between, `send` is called, and decides.

What is used here is not promised by uvicorn: `tests/server/test_private_names.py` pins it. Where a name is missing, the
ordinary way is taken.
"""

import asyncio
import contextlib
import inspect
import types
from collections.abc import Callable, Coroutine, Generator, Iterable
from operator import attrgetter
from typing import Any, Final

_MOST_CALLS: Final = 64
"""How many functions of middleware are looked through for the web server's own."""

_CHUNKING: Final = ("uvicorn.protocols.http.httptools_impl", "RequestResponseCycle")
_USED = attrgetter(
    "scope",
    "response_started",
    "response_complete",
    "chunked_encoding",
    "disconnected",
    "flow.write_paused",
    "transport.write",
)


def is_servers_own(send: object) -> bool:
    """Whether `send` is the web server's, and not a middleware's that may keep a cancel scope across its steps."""
    owner = getattr(send, "__self__", None)
    return type(owner).__module__.startswith("uvicorn.protocols.")


# The short way


def chunked_response(send: object) -> Any:
    """The response that `send` has begun, if it is one whose chunks can be handed to its connection; else None."""
    owner: object = getattr(send, "__self__", None)
    if (type(owner).__module__, type(owner).__qualname__) != _CHUNKING:
        return None
    response: Any = owner
    try:
        _USED(response)
    except AttributeError:
        return None
    # None of this changes once a response has begun.
    chunked = response.response_started and response.chunked_encoding is True and response.scope["method"] != "HEAD"
    return response if chunked else None


def chunk_taker(response: Any) -> Callable[[bytes], None] | None:
    """What takes one chunk of a chunked `response` to its connection; None if `send` would do anything else now."""
    if response.disconnected or response.response_complete or response.flow.write_paused:
        return None
    write: Callable[[bytes], None] = response.transport.write
    return write


def as_chunk(data: bytes) -> bytes:
    """`data`, which is not empty, as one chunk of an HTTP response."""
    return b"%x\r\n%b\r\n" % (len(data), data)


# The ordinary way


def begun(sending: Any) -> asyncio.Future[None] | None:
    """Run a `send` until it has to wait, which a web server's own does only when the socket is full.

    So a write to an idle stream costs no task and no turn of the event loop. The rest, if any, runs in a task.
    """
    try:
        waiting_for = sending.send(None)
    except StopIteration:
        return None
    return asyncio.ensure_future(_finish(sending, waiting_for))


async def _finish(sending: Coroutine[Any, Any, None], waiting_for: Any) -> None:
    await _resume(sending, waiting_for)


@types.coroutine
def _resume(sending: Coroutine[Any, Any, None], waiting_for: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that has run its first step and waits for `waiting_for`."""
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


# The connection


def transport_under(*calls: object) -> asyncio.Transport | None:
    """The connection under `send` or `receive`, where the web server shows it.

    Middleware wraps what the web server gave it: in a function of its own, as Starlette's error pages do with `send`
    alone, or in a request that remembers `receive`, as its `BaseHTTPMiddleware` does.
    """
    found = list(calls)
    for call in found:  # It grows meanwhile.
        owner = getattr(call, "__self__", None)
        transport = getattr(owner, "transport", None)
        if callable(getattr(transport, "abort", None)):
            return transport
        for inner in (getattr(owner, "receive", None), *_enclosed(call)):
            if inspect.isroutine(inner) and inner not in found and len(found) < _MOST_CALLS:
                found.append(inner)
    return None


def _enclosed(call: object) -> Iterable[object]:
    """What a function took along from around it."""
    for cell in getattr(call, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # It is empty.
            yield cell.cell_contents

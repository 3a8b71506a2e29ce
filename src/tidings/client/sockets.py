"""The sockets of HTTP connections: closed in any case, and watched by the operating system.

When a connection is given up while it begins to speak TLS, the HTTP library forgets its socket without closing it. A
server that accepts connections and then says nothing would cost one with each attempt.

While a request runs, a server that answers no ping may be busy, and a network that swallows everything looks the same.
The systems below know the difference: that of a busy server still acknowledges what it gets. So they are told to probe
a connection on which nothing comes, and to break it off when nobody acknowledges that.

They do so only where all that was sent has arrived. What is still on its way may wait for a server that is too busy to
read, and has the time of its request. `TCP_USER_TIMEOUT` would end that sooner, and counts a full buffer as silence.
With it, Linux would also count its time rather than the probes.
"""

# pyright: reportPrivateUsage=false

import math
import socket
from contextlib import suppress
from typing import Any, Final

import anyio
import httpcore2
import httpx2

from tidings.client.config import Timeouts

_PROBES: Final = 3
"""One may get lost."""
_LONGEST: Final = 32_767
"""Seconds between probes, as systems have it."""


def keep(transport: httpx2.AsyncHTTPTransport, timeouts: Timeouts) -> httpx2.AsyncHTTPTransport:
    """`transport`, which from now on closes what it opens, and notices when its packets vanish."""
    pool: Any = transport._pool  # noqa: SLF001 - pinned by a test
    pool._network_backend = _Backend(pool._network_backend, _probing(timeouts))  # noqa: SLF001 - see above
    return transport


def _probing(timeouts: Timeouts) -> list[tuple[int, int, int]]:
    """Socket options that break a quiet connection off as a ping would: `ping_interval` and `ping` seconds after the
    last sign of life, in whole seconds.
    """
    idle, between = _seconds(timeouts.ping_interval), _seconds(timeouts.ping / _PROBES)
    values = {
        "TCP_KEEPIDLE": idle,
        "TCP_KEEPALIVE": idle,  # What macOS calls it.
        "TCP_KEEPINTVL": between,
        "TCP_KEEPCNT": _PROBES,
    }
    known = [
        (socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in values.items() if hasattr(socket, name)
    ]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *known]


def _seconds(value: float) -> int:
    return math.ceil(min(value, _LONGEST))


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, inner: httpcore2.AsyncNetworkBackend, probing: list[tuple[int, int, int]]) -> None:
        self._inner = inner
        self._probing = probing
        self.connect_unix_socket = inner.connect_unix_socket
        self.sleep = inner.sleep

    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(*arguments, **options)
        for option in self._probing:
            with suppress(OSError):  # Not every system has all that Python knows of.
                stream.get_extra_info("socket").setsockopt(*option)
        start = stream.start_tls

        async def start_tls(*arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
            try:
                return await start(*arguments, **options)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await stream.aclose()
                raise

        stream.start_tls = start_tls
        return stream

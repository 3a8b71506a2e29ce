"""The sockets of HTTP connections, closed in any case.

When a connection is given up while it begins to speak TLS, the HTTP library forgets its socket without closing it. A
server that accepts connections and then says nothing would cost one with each attempt.
"""

# pyright: reportPrivateUsage=false

from typing import Any

import anyio
import httpcore2
import httpx2


def close_in_any_case(transport: httpx2.AsyncHTTPTransport) -> httpx2.AsyncHTTPTransport:
    """`transport`, which from now on closes what it opens."""
    pool: Any = transport._pool  # noqa: SLF001 - pinned by a test
    pool._network_backend = _Backend(pool._network_backend)  # noqa: SLF001 - see above
    return transport


class _Backend(httpcore2.AsyncNetworkBackend):
    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner
        self.connect_unix_socket = inner.connect_unix_socket
        self.sleep = inner.sleep

    async def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(*arguments, **options)
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

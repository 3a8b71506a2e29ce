"""A network in memory: connections that are delayed, slow, cut, cut in the middle of a frame, or half open.

The bytes of one connection arrive in their order; those of two do not, because each has its own latency. All chances
come from the seed. A port may be that of a balancer, which chooses the port that a connection goes to.
"""

import asyncio
import contextvars
import random
import socket
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import Node, VirtualLoop

HIGH_WATER = 64 * 1024
"""Bytes under way after which a writer is asked to pause."""

Balancer = Callable[["Node | None"], int | None]
"""Returns the port for a connection of a node; None if nobody is there."""


class Listener:
    """A port that is listened to: what `create_server` returns."""

    def __init__(self, network: "Network", port: int, factory: Callable[[], Any], node: "Node | None") -> None:
        self.network, self.port, self.factory, self.node = network, port, factory, node
        self.sockets = (Socket(("127.0.0.1", port), ("", 0)),)

    def close(self) -> None:
        if self.is_serving():
            del self.network.listeners[self.port]

    def is_serving(self) -> bool:
        return self.network.listeners.get(self.port) is self

    async def wait_closed(self) -> None:
        pass

    async def start_serving(self) -> None:
        pass


class Socket:
    """Stands in for the socket of a transport: libraries ask it for its names, and set options."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 6

    def __init__(self, name: tuple[str, int], peer: tuple[str, int]) -> None:
        self._name, self._peer = name, peer
        self.user_timeout: float | None = None
        """Seconds after which a connection ends whose peer acknowledges nothing."""

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def getpeername(self) -> tuple[str, int]:
        return self._peer

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        if (level, option) == (socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", None)):
            self.user_timeout = value / 1000

    def fileno(self) -> int:
        return -1


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, connection: "Connection", node: "Node | None", name: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        self.socket = Socket(name, peer)
        super().__init__({"sockname": name, "peername": peer, "socket": self.socket})
        self.connection, self.node = connection, node
        self.protocol: Any = None
        self.other: End = self
        self.closing = False
        self.vanishes = False  # What this end sends is lost, and nobody is told.
        self._reading = True
        self._arrived: list[bytes | None] = []
        self._last_due = 0.0
        self._under_way = 0
        self._writer_paused = False

    # What a protocol asks of its transport.

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._hand_over()

    def write(self, data: Any) -> None:
        if self.closing or not data:
            return
        self.connection.carry(self, bytes(data))
        if self._under_way > HIGH_WATER and not self._writer_paused:
            self._writer_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self.connection.carry(self, None)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._under_way

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return 0, HIGH_WATER

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def close(self) -> None:
        if not self.closing:
            self.connection.carry(self, None)
            self._end(None)

    def abort(self) -> None:
        self.close()

    # What the network does.

    def due(self, latency: float) -> float:
        """Returns the time at which what is sent now arrives: later than all that was sent before."""
        self._last_due = max(self.connection.network.loop.time() + latency, self._last_due + 1e-6)
        return self._last_due

    def sent(self, size: int) -> None:
        self._under_way += size

    def delivered(self, size: int) -> None:
        self._under_way -= size
        if self._writer_paused and self._under_way <= HIGH_WATER // 4 and not self.closing:
            self._writer_paused = False
            self._call(self.protocol.resume_writing)

    def arrive(self, data: bytes | None, size: int) -> None:
        self._arrived.append(data)
        self._hand_over()
        self.other.delivered(size)

    def reset(self, error: type[Exception] = ConnectionResetError) -> None:
        """Ends the connection for this end, which is told."""
        if not self.closing:
            self._end(error("simulated"))

    def vanish(self) -> None:
        """Closes the end of a dead node."""
        self.closing = True

    def _hand_over(self) -> None:
        while self._arrived and self._reading and not self.closing:
            self._call(self._received, self._arrived.pop(0))

    def _received(self, data: bytes | None) -> None:
        if self.closing:
            return
        if data is not None:
            self.protocol.data_received(data)
        elif not self.protocol.eof_received():
            self.close()

    def _end(self, error: Exception | None) -> None:
        self.closing = True
        self.connection.ended(self)
        if self.protocol is not None:
            self._call(self.protocol.connection_lost, error)

    def _call(self, callback: Callable[..., object], *args: Any) -> None:
        self.connection.network.call(self.node, callback, *args)


def _asks_for_stream(data: bytes) -> bool:
    return data.startswith(b"GET /") or b"mcp-method: subscriptions/listen" in data[:2000].lower()


class Connection:
    """Two ends, and what happens to the bytes between them."""

    ends: tuple[End, End]
    """The client's and the server's."""

    def __init__(self, network: "Network", number: int) -> None:
        self.network = network
        self.number = number
        self.latency = network.dice.uniform(0.0005, 0.02)
        self.bytes_left: int | None = None  # After so many more bytes the connection is cut.
        self.is_stream = False  # The server is answering with a stream of events.
        self._checksum = 0

    def join(self, client: End, server: End) -> None:
        client.other, server.other = server, client
        self.ends = (client, server)

    def __str__(self) -> str:
        return f"#{self.number} {self.ends[0].node}-{self.ends[1].node}"

    def carry(self, end: End, data: bytes | None) -> None:
        if end.node is not None and end.node.dead:
            return
        if data is not None and self.bytes_left is not None:
            data, self.bytes_left = data[: self.bytes_left], self.bytes_left - len(data)
        size = len(data or b"")
        end.sent(size)
        if data:
            self._look_at(end, data)
        if end is self.ends[0] and self.network.swallows_streams and _asks_for_stream(data or b""):
            self.half_open(to_server=False)
        if end.vanishes:
            if end is self.ends[1]:
                self.note_silence()  # The stream may begin only now.
            if size and end.socket.user_timeout is not None:
                self.network.at(self.network.loop.time() + end.socket.user_timeout, end.reset, TimeoutError)
            return
        jitter = self.network.dice.uniform(0, self.latency)
        extra = sum(each.node.extra_latency for each in self.ends if each.node is not None)
        self.network.at(end.due(self.latency + jitter + extra), self._deliver, end.other, data, size)
        if self.bytes_left is not None and self.bytes_left <= 0:
            self.bytes_left = None
            self.network.at(end.due(self.latency), self.cut)

    def _look_at(self, end: End, data: bytes) -> None:
        self._checksum = zlib.crc32(data, self._checksum)
        if end is self.ends[1]:
            if data.startswith(b"HTTP/1.1"):
                self.is_stream = b"text/event-stream" in data[:2000]
                if self.is_stream and self.network.shortens_streams:
                    self.bytes_left = self.network.dice.randint(100, 1500)
            if data.endswith(b"\r\n0\r\n\r\n") or data == b"0\r\n\r\n":
                self.is_stream = False

    def _deliver(self, end: End, data: bytes | None, size: int) -> None:
        if not end.other.vanishes and not end.closing:
            end.arrive(data, size)

    def cut(self) -> None:
        """Resets both ends."""
        for end in self.ends:
            end.reset()

    def half_open(self, *, to_client: bool = True, to_server: bool = True) -> None:
        """Lets all bytes vanish from now on, in one direction or in both, and tells nobody."""
        client, server = self.ends
        client.vanishes, server.vanishes = client.vanishes or to_server, server.vanishes or to_client
        if to_client:
            self.note_silence()

    def note_silence(self) -> None:
        """Takes note that a stream is silent from now on, unless its client has let go of it."""
        if self.is_stream and not self.ends[0].closing:
            self.network.silenced.setdefault(self, self.network.loop.time())

    def ended(self, end: End) -> None:
        if end is self.ends[0]:
            self.network.silenced.pop(self, None)
        if all(each.closing for each in self.ends):
            self.network.connections.pop(self.number, None)
            self.network.trace(f"over {self} {self._checksum:08x}")

    def is_between(self, node: "Node") -> bool:
        return any(end.node is node for end in self.ends)


class Network:
    """All ports and connections of a simulation."""

    def __init__(self, loop: "VirtualLoop", seed: int, trace: Callable[[str], None]) -> None:
        self.loop = loop
        self.trace = trace
        self.dice = random.Random(f"{seed} network")
        self.listeners: dict[int, Listener] = {}
        self.balancers: dict[int, Balancer] = {}
        self.connections: dict[int, Connection] = {}
        self.silenced: dict[Connection, float] = {}
        """Streams whose client hears nothing any more and has not noticed, with the time at which that began."""
        self.shortens_streams = False  # Each stream that begins is cut after some hundred bytes.
        self.swallows_streams = False  # Of each stream that is asked for, nothing arrives.
        self._numbers = 0

    def listen(self, factory: Callable[[], Any], port: int, node: "Node | None") -> Listener:
        if port in self.listeners:
            raise OSError(98, f"simulated: port {port} is in use")
        self.listeners[port] = Listener(self, port, factory, node)
        return self.listeners[port]

    async def connect(self, factory: Callable[[], Any], host: str, port: int, node: "Node | None") -> tuple[End, Any]:
        await asyncio.sleep(self.dice.uniform(0.0005, 0.02))
        goal = self.balancers[port](node) if port in self.balancers else port
        listener = None if goal is None else self.listeners.get(goal)
        if listener is None or (listener.node is not None and listener.node.dead):
            raise ConnectionRefusedError(111, f"simulated: nobody listens on port {port}")
        self._numbers += 1
        connection = Connection(self, self._numbers)
        ours, theirs = (host, 50_000 + self._numbers), ("127.0.0.1", port)
        client, server = End(connection, node, ours, theirs), End(connection, listener.node, theirs, ours)
        connection.join(client, server)
        self.connections[connection.number] = connection
        self.trace(f"open {connection}")
        client.protocol = factory()
        client.protocol.connection_made(client)
        self.call(listener.node, self._accept, server, listener.factory)
        return client, client.protocol

    @staticmethod
    def _accept(end: End, factory: Callable[[], Any]) -> None:
        if not end.closing:
            end.protocol = factory()
            end.protocol.connection_made(end)

    def of(self, node: "Node") -> list[Connection]:
        return [connection for connection in self.connections.values() if connection.is_between(node)]

    def streams(self) -> list[Connection]:
        return [connection for connection in self.connections.values() if connection.is_stream]

    def lose(self, node: "Node", *, told: bool) -> None:
        """Takes a dead node off the network. Its peers are told by a reset, or not at all."""
        for port in [port for port, listener in self.listeners.items() if listener.node is node]:
            del self.listeners[port]
        for connection in self.of(node):
            if not told:
                connection.half_open()
            for end in connection.ends:
                if end.node is node:
                    end.vanish()
                    connection.ended(end)
                elif told:
                    end.reset()

    def call(self, node: "Node | None", callback: Callable[..., object], *args: Any) -> None:
        """Calls something on a node."""
        from tests.simulation.loop import CURRENT  # The loop imports this file.

        context = contextvars.Context()
        context.run(CURRENT.set, node)
        self.loop.call_soon(callback, *args, context=context)

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> None:
        """Calls something that belongs to no node."""
        self.loop.call_at(when, callback, *args, context=contextvars.Context())

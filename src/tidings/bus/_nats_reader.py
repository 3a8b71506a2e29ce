"""Reading a stream over one connection: from a place on, in order, and without a gap that goes unnoticed.

The broker numbers what it sends to a reader without holes, sends a heartbeat when there is nothing to send, and asks
from time to time whether what it sent has arrived. So a message that is lost on the way, a reader that the broker has
forgotten and a broker that hangs are all noticed, and end the connection: whoever reads goes on from where it was, over
another one.

May import: `nats`.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from tidings.bus._nats_connection import Answer, Connection
from tidings.bus._nats_errors import Interrupted
from tidings.bus._nats_stream import Stream

_SILENCE: Final = 3
"""After so many beats without a sign of life the broker is taken for gone. It gives one with each."""


class Delivery(NamedTuple):
    """One message of the stream."""

    seq: int
    at: int
    """When it was stored, in nanoseconds since 1970."""
    pending: int
    """How many follow it at present."""
    subject: str
    data: bytes


class Reader:
    """Hands each message of `stream` to `deliver`."""

    def __init__(self, connection: Connection, stream: Stream, deliver: Callable[[Delivery], None]) -> None:
        self._connection = connection
        self._stream = stream
        self._deliver = deliver
        self._name = f"tidings-{secrets.token_hex(8)}"
        self._subscriptions: list[Subscription] = []
        self._count = 0
        self._quiet = 0
        self._closed = False

    async def open(self, start: int, *, beat: float, watch: bool = False) -> int:
        """Read from `start` on, with a sign of life every `beat` seconds; how many messages there are now.

        With `watch`, hear it at once if the broker gives this reader up, where that is permitted.
        """
        if watch:
            await self._watch()
        inbox = self._connection.inbox()
        self._subscriptions.append(await self._connection.listen(inbox, self._message))
        return await self._stream.read_from(start, inbox, name=self._name, beat=beat)

    async def _watch(self) -> None:
        async def given_up(_: Msg) -> None:
            self._end("it has given up its reader, perhaps because the stream was deleted.")

        advisory = f"$JS.EVENT.ADVISORY.CONSUMER.DELETED.{self._stream.name}.{self._name}"
        self._subscriptions.append(await self._connection.listen(advisory, given_up))

    def check(self) -> None:
        """To be called with each beat: has the broker given a sign of life?"""
        self._quiet += 1
        if self._quiet > _SILENCE:
            self._end("it gives no sign of life.")

    async def close(self) -> None:
        """Read no more; the connection goes on, and so does this, whatever it finds of it."""
        self._closed = True
        with suppress(Exception):
            for subscription in self._subscriptions:
                await subscription.unsubscribe()
            subject = f"$JS.API.CONSUMER.DELETE.{self._stream.name}.{self._name}"
            await self._connection.post(subject, b"", _ignore)

    async def _message(self, message: Msg) -> None:
        if self._closed or self._connection.ended.done():
            return
        self._quiet = 0
        status = message.headers.get("Status") if message.headers else None
        if status is None:
            self._take(message)
        elif status == "100":
            await self._control(message)
        else:
            self._end(f"it stopped sending, with status {status}.")

    def _take(self, message: Msg) -> None:
        # $JS.ACK.<stream>.<reader>.<tries>.<seq>.<count>.<time>.<pending>; after $JS.ACK there may be two more.
        tokens = message.reply.split(".")
        seq, count, at, pending = map(int, tokens[5:9] if len(tokens) == 9 else tokens[7:11])
        if count != self._count + 1:
            self._end(f"message {self._count + 1} got lost on its way.")
            return
        self._count = count
        self._deliver(Delivery(seq, at, pending, message.subject, message.data))

    async def _control(self, message: Msg) -> None:
        headers = message.headers or {}
        if message.reply:
            # Has all this arrived? It has: messages come here one after the other.
            await self._connection.say(message.reply)
        elif int(headers.get("Nats-Last-Consumer", self._count)) != self._count:
            self._end(f"messages after {self._count} got lost on their way.")
        elif stalled := headers.get("Nats-Consumer-Stalled"):
            await self._connection.say(stalled)

    def _end(self, why: str) -> None:
        self._connection.fail(Interrupted(why))


def _ignore(_: Answer) -> None:
    pass

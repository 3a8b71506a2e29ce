"""Taking part in a log: where a process begins to read, or goes on, and whether it has missed something.

A process that was away knows its place: the epoch, the last message that it heard, and when that was stored. It can go
on from there unless the log is another one by now. It is another one
- if the epoch is: the stream was created, emptied or marked anew;
- if the stream ends before that place: an older copy was put back, or a crash took the end of it;
- if that end has grown again since: a message before that place was stored after it. Had all such messages been
  replaced by later ones, those would still be ahead, and nothing would be missed.
In the last two cases nobody else may have noticed, so a new epoch is begun for all.

May import: nothing else.
"""

import secrets
from dataclasses import dataclass
from typing import Final

from tidings.bus._nats_errors import ApiError
from tidings.bus._nats_log import Place
from tidings.bus._nats_stream import Found, Mark, Stream

_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Joined:
    """The log, and where to go on in it."""

    found: Found
    mark: Mark
    place: Place
    resumed: bool
    """It goes on where it was, and nothing was missed."""

    @property
    def head(self) -> int:
        """The version up to which everything was heard. A log in which nothing was published yet is at 0."""
        return 0 if self.place.seq == self.mark.seq == 1 else self.place.seq


async def join(stream: Stream, known: Place | None) -> Joined:
    """Take part in the log of `stream`, at the place that is `known` if there is one.

    Raises:
        BusMismatch: The stream is not one that a bus can use.
        Exception: What `Connection.ask` raises.
    """
    await stream.prepare()
    for _ in range(_ATTEMPTS):
        mark = await stream.mark()
        found = await stream.find()
        if mark is None or not mark.epoch:
            await _begin_epoch(stream, mark)
        elif not found.first <= mark.seq <= found.last:
            continue  # It was emptied or replaced between the two questions.
        elif known is None or known.epoch != found.epoch(mark):
            await stream.probe(mark)
            return Joined(found, mark, Place(found.epoch(mark), found.last, found.last_at), resumed=False)
        elif await _is_rewritten(stream, found, known):
            await _begin_epoch(stream, mark)
        else:
            await stream.probe(mark)
            return Joined(found, mark, known, resumed=True)
    raise ApiError(0, "the stream is changed again and again")


async def _begin_epoch(stream: Stream, before: Mark | None) -> None:
    """Begin a new epoch, unless somebody else does so at the same time."""
    await stream.set_mark(secrets.token_hex(8), None, expected=before.seq if before else 0)


async def _is_rewritten(stream: Stream, found: Found, known: Place) -> bool:
    if known.seq > found.last:
        return True
    later = await stream.first_after(known.at)
    return later is not None and later <= known.seq

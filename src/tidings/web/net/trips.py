"""One call of `fetch` on its way: what it has to keep to, what one URL gave, and what comes of it."""

import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from tidings.web.net.bodies import Body, Progress, read
from tidings.web.net.model import BadAnswer, Response, TooManyRedirects, TooSlow
from tidings.web.net.plan import Plan
from tidings.web.net.urls import Url, join

if TYPE_CHECKING:
    from tidings.web.net.client import Answer

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)
_PARAMETER = re.compile(r"""\s*[\w-]{1,40}\s*=\s*(?:[\w.:/+-]{1,80}|"[\w.:/+-]{1,80}")\s*""", re.ASCII)
_DRAINED = 64 * 1024
_DRAIN_SECONDS = 1.0


@dataclass
class Trip:
    """One call of `fetch` on its way."""

    plan: Plan
    until: float
    """By the fetcher's clock."""
    progress: Progress | None = None
    notes: list[str] = field(default_factory=list[str])
    doing: str = "waiting for its turn"
    """What it would be that took too long."""

    def note(self, text: str) -> None:
        """Tell the reader of the response, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class Hop:
    """What one URL gave."""

    url: Url
    status: int
    headers: Mapping[str, str]
    body: Body
    private: bool = False
    """Whether it came from an address that is not public."""

    @property
    def location(self) -> str | None:
        """Where it leads on to."""
        return self.headers.get("location") if self.status in _REDIRECTS else None


@contextmanager
def deadline(trip: Trip) -> Generator[None]:
    """Ends what takes longer than the trip may.

    Raises:
        TooSlow: It did.
    """
    with anyio.move_on_after(trip.plan.timeout) as scope:
        yield
    if scope.cancelled_caught:
        late = f"{trip.plan.url} was not there within {trip.plan.timeout:g} s: {trip.doing}"
        cure = "give it more time (timeout_ms, as far as the server's --timeout allows), or try again later"
        raise TooSlow(f"{late}; {cure}", url=str(trip.plan.url))


def next_url(left: Sequence[Url], location: str, most: int) -> Url:
    """The URL that the last of those `left` behind leads on to.

    Raises:
        BadUrl: It is none that can be fetched.
        TooManyRedirects: It leads in a circle, or there are more than `most`.
    """
    with suppress(UnicodeDecodeError):
        location = location.encode("latin-1").decode()  # Headers are bytes; most servers mean UTF-8.
    url, start = join(left[-1], location), left[0]
    if url in left:
        cause = "it redirects in a circle, perhaps because it wants cookies, which are never sent"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; fetch another page of the site", url=str(start))
    if len(left) > most:
        cause = f"it redirects more than {most} times (the last time to {url})"
        raise TooManyRedirects(f"{start} cannot be fetched: {cause}; allow more with max_redirects", url=str(start))
    return url


async def body_of(url: Url, answer: "Answer", trip: Trip) -> Body:
    """The body of an answer, if it is one that can be had; nothing for one that leads on.

    Raises:
        FetchError: It is too large, or broken.
    """
    if answer.status < 200 or (answer.status == 304 and not trip.plan.validators):
        odd = f"{url} answered with status {answer.status}, which nobody asked for"
        raise BadAnswer(f"{odd}; it is broken at its source", url=str(url))
    async with aclosing(answer.chunks()) as chunks:
        if answer.status in _REDIRECTS and "location" in answer.headers:
            return await _drained(chunks)
        most = trip.plan.max_bytes
        return await read(chunks, answer.headers, most, url=str(url), cut=trip.plan.cut, progress=trip.progress)


async def _drained(chunks: AsyncGenerator[bytes]) -> Body:
    # What a redirect says is of no interest; to read the little that it is keeps the connection.
    came = 0
    with anyio.move_on_after(_DRAIN_SECONDS):
        async for chunk in chunks:
            came += len(chunk)
            if came > _DRAINED:
                break
    return Body(b"")


def response(hop: Hop, left: Sequence[Url], trip: Trip) -> Response:
    """What the trip came to."""
    if hop.status == 429:
        trip.note(f"{hop.url.host} says that it is asked too often (status 429).")
    if hop.body.truncated and not trip.plan.cut:
        trip.note("The packed body ended too early: what could be unpacked is here, the rest is missing.")
    headers = hop.headers
    return Response(
        url=str(hop.url),
        requested=str(trip.plan.url),
        status=hop.status,
        headers=headers,
        body=hop.body.data,
        content_type=_content_type(headers.get("content-type", "")),
        retrieved_at=datetime.now(UTC),
        etag=headers.get("etag"),
        last_modified=headers.get("last-modified"),
        not_modified=hop.status == 304,
        redirects=tuple(map(str, left)),
        truncated=hop.body.truncated,
        notes=tuple(trip.notes),
        private=hop.private,
    )


def _content_type(header: str) -> str:
    """The content type, and what of its parameters is one: it is told to readers, and no server shall speak to them."""
    kind, *parameters = header[:1_000].split(";")
    kind = kind.partition(",")[0].strip()
    if not _TYPE.fullmatch(kind):
        return ""
    return ";".join([kind, *filter(_PARAMETER.fullmatch, parameters)])

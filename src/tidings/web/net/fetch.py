"""Fetching a page, from its URL to its bytes.

    async with Fetcher(limits) as fetcher:
        response = await fetcher.fetch(Request("https://example.org/"))

For each hop, in this order: robots.txt, a turn at the host, one request through the guard, the body within its limit;
then another attempt, or the next hop, or the response. One deadline is over all of it. Whatever a server answers is a
`Response`; a `FetchError` says that there is none.
"""

import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from tidings.web.net.addresses import Network
from tidings.web.net.bodies import Progress
from tidings.web.net.model import FetchError, Limits, RateLimited, Request, Response, Unreachable
from tidings.web.net.plan import for_robots, plan
from tidings.web.net.policy import Policy, policy
from tidings.web.net.rates import NoTurn, Rates
from tidings.web.net.retries import RETRIED, pause, retry_after
from tidings.web.net.trips import Hop, Trip, body_of, deadline, next_url, response
from tidings.web.net.urls import Url

if TYPE_CHECKING:
    from tidings.web.net.client import Client
    from tidings.web.net.guard import Resolver
    from tidings.web.net.robots import Memory, Robots


class Fetcher:
    """Fetches pages; owns the connections, and remembers what hosts ask for."""

    def __init__(
        self,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        *,
        allow_private: Sequence[Network] = (),
        allow_domains: Sequence[str] = (),
        block_domains: Sequence[str] = (),
        resolver: "Resolver | None" = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """Ready at once: nothing is loaded or opened before the first request.

        Args:
            limits: How much of anything is allowed.
            allow_private: Networks that may be fetched from though they are not public.
            allow_domains: If there are any, nothing else is fetched. `example.org` is all below it too.
            block_domains: Are not fetched from.
            resolver: From names to addresses; the system's without one.
            tls: Whom to trust; whom the system trusts without one.
            clock: Seconds, for rate limits and for what is remembered.
            sleep: Waits for the next turn or attempt.
        """
        self.limits = limits
        self._policy: Policy = policy(allow_private, allow_domains, block_domains)
        self._resolver = resolver
        self._tls = tls
        self._clock = clock
        self._sleep = sleep
        self._closed = False
        self._client: Client | None = None
        self._robots: Memory | None = None
        self._rates = Rates(
            per_minute=limits.per_host_minute,
            per_host=limits.per_host_at_once,
            at_once=limits.at_once,
            clock=clock,
            sleep=sleep,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection; what is on its way fails."""
        self._closed = True
        if self._client is not None:
            await self._client.aclose()

    async def fetch(self, request: Request, progress: Progress | None = None) -> Response:
        """The page that `request` asks for.

        Raises:
            FetchError: It could not be had; the text says why, and what to do.
        """
        planned = plan(request, self.limits)
        trip = Trip(planned, self._clock() + planned.timeout, progress)
        with deadline(trip):
            return await self._follow(trip)

    async def robots(self, url: str) -> "Robots":
        """What the robots.txt of the URL's site says.

        Raises:
            FetchError: The site cannot be reached.
        """
        planned = plan(Request(url), self.limits)
        trip = Trip(planned, self._clock() + planned.timeout)
        with deadline(trip):
            return await self._robots_of(planned.url, trip)

    async def _follow(self, trip: Trip) -> Response:
        plan, url, own = trip.plan, trip.plan.url, True
        left: list[Url] = []
        while True:
            if plan.respect_robots:
                await self._ask_robots(url, trip)
            hop = await self._hop(url, plan.headers(own=own), trip)
            if hop.location is None:
                return response(hop, left, trip)
            left.append(url)
            url = next_url(left, hop.location, plan.max_redirects)
            if own and plan.own and not left[-1].trusts(url):
                own = False
                trip.note(f"The request's own headers were not sent on to {url.host}.")

    async def _ask_robots(self, url: Url, trip: Trip) -> None:
        trip.doing = f"the robots.txt of {url.host} had not come"
        try:
            robots = await self._robots_of(url, trip)
        except FetchError as error:
            raise error.about(str(url)) from error
        if rule := await robots.asked(url, trip.plan.agent):
            from tidings.web.net.robots import refused  # noqa: PLC0415 - it is loaded

            raise refused(url, rule)

    async def _robots_of(self, url: Url, trip: Trip) -> "Robots":
        from tidings.web.net.robots import MAX_BYTES, Memory  # noqa: PLC0415 - loaded by whom it is needed

        async def load(where: Url) -> Response:
            return await self._follow(Trip(for_robots(where, trip.plan.agent, self.limits, MAX_BYTES), trip.until))

        if self._robots is None:
            self._robots = Memory(self._clock)
        robots = await self._robots.of(url, load)
        return await robots.prepare(trip.plan.agent)

    async def _hop(self, url: Url, headers: Sequence[tuple[str, str]], trip: Trip) -> Hop:
        """What `url` gives, after as many attempts as it takes, and as are allowed and in time."""
        attempt = 0
        while True:
            try:
                hop = await self._once(url, headers, trip)
            except Unreachable as error:
                # A connection may have been closed at the other end while it was idle: that is no reason to wait.
                seconds = pause(attempt - 1) if attempt else 0.0
                if not error.again or not self._may_retry(attempt, seconds, trip):
                    raise
                trip.note("It was asked again, as the connection had failed.")
            else:
                if hop.status not in RETRIED:
                    return hop
                seconds = self._pause_for(hop, attempt)
                if not trip.plan.insist or not self._may_retry(attempt, seconds, trip):
                    return hop
                trip.note(f"It was asked again, as it had answered with status {hop.status}.")
            await self._sleep(seconds)
            attempt += 1

    def _pause_for(self, hop: Hop, attempt: int) -> float:
        asked_for = retry_after(hop.headers.get("retry-after"), datetime.now(UTC))
        if asked_for:
            self._rates.hold(hop.url.host, asked_for)
        return pause(attempt, asked_for)

    def _may_retry(self, attempt: int, seconds: float, trip: Trip) -> bool:
        return attempt < self.limits.retries and seconds < trip.until - self._clock() and not self._closed

    async def _once(self, url: Url, headers: Sequence[tuple[str, str]], trip: Trip) -> Hop:
        trip.doing = f"its turn at {url.host} had not come"
        try:
            async with self._rates.turn(url.host, trip.until - self._clock()) as waited:
                if waited >= 1:
                    trip.note(f"The limit of requests to {url.host} held it up for {waited:.0f} s.")
                trip.doing = f"{url.host} had not answered"
                async with self._connections().get(url, headers) as answer:
                    trip.doing = "its body was still on the way"
                    body = await body_of(url, answer, trip)
                    return Hop(url, answer.status, answer.headers, body, answer.private)
        except NoTurn as late:
            raise _rate_limited(url, late, self.limits) from None

    def _connections(self) -> "Client":
        if self._closed:
            raise RuntimeError("the fetcher is closed")
        if self._client is None:
            from tidings.web.net.client import Client  # noqa: PLC0415 - loaded with the first request
            from tidings.web.net.guard import Guard  # noqa: PLC0415 - see above

            guard = Guard(self._policy, self._resolver)
            self._client = Client(guard, at_once=self.limits.at_once, tls=self._tls)
        return self._client


def _rate_limited(url: Url, late: NoTurn, limits: Limits) -> RateLimited:
    why = (
        f"{url.host} asked to be left alone" if late.held else f"{limits.per_host_minute} requests a minute are allowed"
    )
    when = f"the next can be made in {late.seconds:.0f} s"
    return RateLimited(f"{url} is not fetched: {why}, and {when}; try again then", url=str(url), again=True)

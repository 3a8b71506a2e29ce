"""robots.txt as defined by RFC 9309.

A site without the file (4xx) allows everything; one that fails to serve it (5xx) allows nothing, unless an older copy
is known. protego evaluates the merged rules of one agent at a time: a file may name thousands for thousands of rules.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio
import anyio.to_thread
from protego import Protego

from tidings.web.fetch.request import BadUrl, FetchError, Response, RobotsRefused
from tidings.web.fetch.urls import Url, join

MAX_BYTES = 500 * 1024
DAY = 24 * 3600.0
_AFTER_FAILURE = 60.0  # seconds until a file that could not be loaded is requested again
_MOST_SITES = 500
_MOST_AGENTS = 4
_MOST_SITEMAPS = 1_000
_LONG = 32 * 1024  # characters from which a file is parsed in a thread
_MOST_TEXT = 4 * 1024 * 1024  # characters of all cached files. Parsed, they take twenty times as much memory.

_ENDS = re.compile(r"\r\n?|\n")
_AGENT = re.compile(r"user[ -]?agent")
_RULE = re.compile(r"(allow|dis+al+ow|disallaw|diasllow|crawl[ -]delay|request[ -]rate)")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def token(user_agent: str) -> str:
    """Returns the name of an agent in robots.txt: `tidings` for `Tidings/1.0 (+https://…)`."""
    found = _TOKEN.match(user_agent.strip())
    return found[0].lower() if found else "*"


@dataclass
class Robots:
    """The rules of the robots.txt at `url`."""

    url: Url
    text: str = ""
    nothing: str | None = None  # the reason why everything is forbidden, if it is
    _parsed: dict[str, Protego] = field(default_factory=dict[str, Protego], repr=False)

    def refuses(self, url: Url, agent: str) -> str | None:
        """Returns why `url` is forbidden to `agent`; None if it is allowed."""
        if self.nothing is not None:
            return self.nothing
        name = token(agent)
        # Several threads may run this at once, so the local value is used, not the cached one.
        if (rules := self._parsed.get(name)) is None:
            if len(self._parsed) >= _MOST_AGENTS:
                self._parsed.clear()
            rules = Protego.parse("\n".join(["User-agent: *", *_lines_for(self.text, name)]))
            self._parsed[name] = rules
        return None if rules.can_fetch(str(url), "*") else "its robots.txt forbids it"

    def sitemaps(self) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for field_, value in _records(self.text):
            if field_ in {"sitemap", "sitemaps", "site-map"} and value:
                with suppress(BadUrl):
                    found[str(join(self.url, value))] = None
                if len(found) == _MOST_SITEMAPS:
                    break
        return tuple(found)

    async def check(self, url: Url, agent: str) -> None:
        """Raises `RobotsRefused` if `refuses` gives a reason. A long file takes up to a second, in a thread."""
        if len(self.text) > _LONG:
            rule = await anyio.to_thread.run_sync(self.refuses, url, agent)
        else:
            rule = self.refuses(url, agent)
        if rule is not None:
            hint = "set respect_robots=false if you have permission to fetch it"
            raise RobotsRefused(f"{url} is not fetched: {rule}; {hint}", url=str(url))


def _records(text: str) -> list[tuple[str, str]]:
    """Returns the names, in lower case, and values of all fields."""
    lines = (line.partition("#")[0].partition(":") for line in _ENDS.split(text))
    return [(name.strip().lower(), value.strip()) for name, colon, value in lines if colon]


def _lines_for(text: str, name: str) -> list[str]:
    """Returns the rules of all groups for the agent; if there are none, of the groups for everybody."""
    own: list[str] = []
    everybody: list[str] = []
    named = False
    agents: set[str] = set()
    in_rules = False
    for field_, value in _records(text):
        if _AGENT.fullmatch(field_):
            if in_rules:
                agents, in_rules = set[str](), False
            agents.add("*" if value.strip() == "*" else token(value))
            named = named or name in agents
        elif _RULE.fullmatch(field_):
            in_rules = True
            line = f"{field_.capitalize()}: {value}"
            if name in agents:
                own.append(line)
            elif "*" in agents:
                everybody.append(line)
    return own if named else everybody


Load = Callable[[Url], Awaitable[Response]]  # fetches a robots.txt, cut at `MAX_BYTES`


class RobotsCache:
    """The robots.txt files of sites that were asked before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[Robots, float]] = OrderedDict()  # by origin: until when they count
        self._loading: dict[str, anyio.Lock] = {}

    async def of(self, url: Url, load: Load) -> Robots:
        """Returns the rules of the URL's origin. Raises `FetchError` if the site cannot be reached in time."""
        # One request for all callers at the same time. If it fails, the next caller tries.
        lock = self._loading.setdefault(url.origin, anyio.Lock())
        try:
            async with lock:
                last, until = self._kept.get(url.origin, (None, 0.0))
                if last is None or until <= self._clock():
                    robots = await _loaded(url, load)
                    until = self._clock() + (DAY if robots.nothing is None else _AFTER_FAILURE)
                    last = robots if last is None or robots.nothing is None else last
                    self._kept[url.origin] = (last, until)
                self._kept.move_to_end(url.origin)
        finally:
            if not lock.statistics().tasks_waiting:
                self._loading.pop(url.origin, None)
        while len(self._kept) > _MOST_SITES or sum(len(kept.text) for kept, _ in self._kept.values()) > _MOST_TEXT:
            self._kept.popitem(last=False)
        return last


async def _loaded(url: Url, load: Load) -> Robots:
    where = replace(url, target="/robots.txt")
    try:
        response = await load(where)
    except FetchError as error:
        # If the site itself is unreachable, report that, and not something about robots.txt.
        if error.url == str(where) and error.kind in {"blocked", "unreachable", "timeout", "rate-limited"}:
            raise
        return Robots(where, nothing=f"its robots.txt is unavailable ({error})")
    if response.status >= 500:
        return Robots(where, nothing=f"its robots.txt is unavailable (status {response.status})")
    if response.status >= 300:
        return Robots(where)
    body = response.body
    if response.truncated and (end := body.rfind(b"\n")) >= 0:
        body = body[:end]  # A rule that is cut off means something else.
    return Robots(where, body.decode("utf-8-sig", "replace"))

"""robots.txt, after RFC 9309.

    Robots(text)                  what a site's file says, for any agent
    robots.refuses(url, agent)    the rule that refuses, or None
    Memory.of(url, load)          the file of the URL's origin: loaded once, kept for a day at most

A site that has no such file (4xx) allows everything; one that cannot give it (5xx) allows nothing, unless an older copy
is at hand. Groups for the same agent are one group; protego reads the rules, and is given those of one agent only,
because a file may name thousands of agents for thousands of rules.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio
import anyio.to_thread
from protego import Protego

from tidings.web.fetch.request import BadUrl, FetchError, Response, RobotsRefused
from tidings.web.fetch.urls import Url, join, shown

MAX_BYTES = 500 * 1024
DAY = 24 * 3600.0
_AFTER_FAILURE = 60.0
"""Seconds until a site that could not give its file is asked again."""
_MOST_SITES = 500
_MOST_AGENTS = 4
_MOST_SITEMAPS = 1_000
_MOST_COMPARED = 2_000
_LONG = 32 * 1024
"""Characters from which on reading it is left to a thread."""
_MOST_TEXT = 4 * 1024 * 1024
"""Characters of all files that are remembered: read, they take twenty times as much memory."""

_ENDS = re.compile(r"\r\n?|\n")
_AGENT = re.compile(r"user[ -]?agent")
_RULE = re.compile(r"(allow|dis+al+ow|disallaw|diasllow|crawl[ -]delay|request[ -]rate)")
_TOKEN = re.compile(r"[A-Za-z0-9_-]+")


def token(user_agent: str) -> str:
    """The name that robots.txt knows an agent by: `Tidings` of `Tidings/1.0 (+https://…)`."""
    found = _TOKEN.match(user_agent.strip())
    return found[0].lower() if found else "*"


@dataclass
class Robots:
    """What a robots.txt says. `url` is where it stands."""

    url: Url
    text: str = ""
    nothing: str | None = None
    """Why nothing may be fetched, whatever the text says."""
    _parsed: dict[str, "_Rules"] = field(default_factory=dict[str, "_Rules"], repr=False)

    def refuses(self, url: Url, agent: str) -> str | None:
        """The rule that refuses `url` to `agent`, as the file has it; None if it may be fetched."""
        if self.nothing is not None:
            return self.nothing
        name = token(agent)
        rules = self._rules(name)
        if rules.parsed.can_fetch(str(url), name):
            return None
        return _rule_against(url, name, rules.lines)

    def crawl_delay(self, agent: str) -> float | None:
        """The seconds between two requests that the site asks for."""
        name = token(agent)
        return self._rules(name).parsed.crawl_delay(name)

    def sitemaps(self) -> tuple[str, ...]:
        """The sitemaps that the file names, as whole URLs."""
        found: dict[str, None] = {}
        for field_, value in _records(self.text):
            if field_ in {"sitemap", "sitemaps", "site-map"} and value:
                try:
                    found[str(join(self.url, value))] = None
                except BadUrl:
                    continue
                if len(found) == _MOST_SITEMAPS:
                    break
        return tuple(found)

    async def prepare(self, agent: str) -> "Robots":
        """Read the rules for `agent`, so that asking for them takes no time."""
        if len(self.text) > _LONG:
            await anyio.to_thread.run_sync(self._rules, token(agent))
        return self

    async def asked(self, url: Url, agent: str) -> str | None:
        """As `refuses`, without holding up others: a long file can be made to take a second for a long URL."""
        if len(self.text) > _LONG:
            return await anyio.to_thread.run_sync(self.refuses, url, agent)
        return self.refuses(url, agent)

    def _rules(self, name: str) -> "_Rules":
        # Threads may be here at once: what was found is returned, whatever becomes of the memory meanwhile.
        found = self._parsed.get(name)
        if found is None:
            if len(self._parsed) >= _MOST_AGENTS:
                self._parsed.clear()
            lines = _lines_for(self.text, name)
            found = self._parsed[name] = _Rules(lines, Protego.parse("\n".join(["User-agent: *", *lines])))
        return found


class _Rules(NamedTuple):
    """What is said to one agent."""

    lines: list[str]
    parsed: Protego


def _rule_against(url: Url, name: str, lines: Sequence[str]) -> str:
    # The longest rule that matches is the one that decides.
    for line in sorted(lines, key=len, reverse=True)[:_MOST_COMPARED]:
        if not Protego.parse(f"User-agent: *\n{line}").can_fetch(str(url), name):
            return f"“{shown(line)}”"
    return "one of its rules"


def _records(text: str) -> list[tuple[str, str]]:
    """The lines that say something: what, in lower case, and its value."""
    records: list[tuple[str, str]] = []
    for line in _ENDS.split(text):
        name, colon, value = line.partition("#")[0].partition(":")
        if colon:
            records.append((name.strip().lower(), value.strip()))
    return records


def _lines_for(text: str, name: str) -> list[str]:
    """The rules of all groups that name the agent; if there is none, of those for everybody."""
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


@dataclass(frozen=True)
class _KeptRobots:
    robots: Robots
    until: float


Load = Callable[[Url], Awaitable[Response]]
"""Fetches a robots.txt, cut at `MAX_BYTES`."""


class Memory:
    """The files of sites that were asked before."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, _KeptRobots] = OrderedDict()
        self._loading: dict[str, anyio.Lock] = {}

    async def of(self, url: Url, load: Load) -> Robots:
        """What the robots.txt of the URL's origin says.

        Raises:
            FetchError: The site itself cannot be reached, or not in time.
        """
        origin = url.origin
        if kept := self._fresh(origin):
            return kept
        # One request for all who ask at once. If it fails, the next of them tries.
        lock = self._loading.setdefault(origin, anyio.Lock())
        try:
            async with lock:
                if kept := self._fresh(origin):
                    return kept
                return self._keep(origin, await _loaded(url, load))
        finally:
            if not lock.statistics().tasks_waiting:
                self._loading.pop(origin, None)

    def _fresh(self, origin: str) -> Robots | None:
        kept = self._kept.get(origin)
        if kept is None or kept.until <= self._clock():
            return None
        self._kept.move_to_end(origin)
        return kept.robots

    def _keep(self, origin: str, robots: Robots) -> Robots:
        before = self._kept.get(origin)
        failed = robots.nothing is not None
        if failed and before is not None:
            robots = before.robots
        self._kept[origin] = _KeptRobots(robots, self._clock() + (_AFTER_FAILURE if failed else DAY))
        self._kept.move_to_end(origin)
        while len(self._kept) > _MOST_SITES or self._size() > _MOST_TEXT:
            self._kept.popitem(last=False)
        return robots

    def _size(self) -> int:
        return sum(len(kept.robots.text) for kept in self._kept.values())


async def _loaded(url: Url, load: Load) -> Robots:
    where = url.at("/robots.txt")
    try:
        response = await load(where)
    except FetchError as error:
        # Where the site itself is out of reach, that is what there is to say, not something about robots.
        if error.url == str(where) and error.kind in {"blocked", "unreachable", "timeout", "rate-limited"}:
            raise
        return Robots(where, nothing=f"its robots.txt cannot be had ({error})")
    if response.status >= 500:
        return Robots(where, nothing=f"its robots.txt cannot be had (status {response.status})")
    if response.status >= 300:
        return Robots(where)
    body = response.body
    if response.truncated and (end := body.rfind(b"\n")) >= 0:
        body = body[:end]  # A rule that is cut in two says something else.
    return Robots(where, body.decode("utf-8-sig", "replace"))


def refused(url: Url, rule: str) -> RobotsRefused:
    """The error for a page that may not be fetched: the rule, and the cure."""
    what = rule if rule.startswith("its ") else f"its robots.txt says {rule}"
    cure = "set respect_robots=false if you may fetch it all the same"
    return RobotsRefused(f"{url} is not fetched: {what}; {cure}", url=str(url))

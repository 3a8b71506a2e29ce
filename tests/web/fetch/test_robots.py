"""robots.txt, after RFC 9309."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
import pytest

from tests.web.fetch.servers import Time
from tidings.web.fetch.request import Response, RobotsRefused, TooManyRedirects, Unreachable
from tidings.web.fetch.robots import DAY, Robots, RobotsCache, token
from tidings.web.fetch.urls import Url, parse

pytestmark = pytest.mark.anyio

HERE = parse("https://example.org/robots.txt")


def robots(text: str) -> Robots:
    return Robots(HERE, text)


def refuses(text: str, path: str, agent: str = "Tidings/1.0") -> str | None:
    return robots(text).refuses(parse(f"https://example.org{path}"), agent)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("", "/", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /a", "/ab", False),
        ("User-agent: *\nDisallow: /a", "/b", True),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a/b\nDisallow: /a", "/a/c", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?z", True),
        ("User-agent: *\nDisallow: /a*/z", "/a/b/c/z", False),
        ("User-agent: *\nDisallow: /a%2fb", "/a%2Fb", False),
        ("User-agent: *\nDisallow: /ü", "/%C3%BC", False),
        ("user-AGENT : *\r\n  disallow : /a # all of it\r\n", "/a", False),
        ("User-agent: *\rDisallow: /a", "/a", False),
        ("Disallow: /", "/a", True),
        ("<html>not found</html>", "/a", True),
        ("User-agent: *\nSitemap: https://x.example/\nDisallow: /a", "/a", False),
        ("User-agent: *\nUnheard-of: x\nUser-agent: other\nDisallow: /a", "/a", False),
    ],
)
def test_rules_are_read_as_the_standard_has_them(rules: str, path: str, allowed: bool) -> None:
    assert (refuses(rules, path) is None) == allowed


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("User-agent: tidings\nDisallow: /a", False),
        ("User-agent: TIDINGS/2.0 (any)\nDisallow: /a", False),
        ("User-agent: tid\nDisallow: /a", True),
        ("User-agent: tidings-news\nDisallow: /a", True),
        ("User-agent: tidings\nAllow: /\nUser-agent: *\nDisallow: /", True),
        ("User-agent: *\nDisallow: /\nUser-agent: tidings\nDisallow:", True),
        (
            "User-agent: tidings\nDisallow: /b\n\nUser-agent: other\nAllow: /\n\nUser-agent: tidings\nDisallow: /a",
            False,
        ),
        ("User-agent: other\nUser-agent: tidings\nDisallow: /a", False),
        ("User-agent: other\nDisallow: /a", True),
        ("User-agent: other\nDisallow: /b\nUser-agent: *\nDisallow: /a", False),
    ],
)
def test_the_groups_that_name_the_agent_count_all_of_them_else_those_for_everybody(rules: str, allowed: bool) -> None:
    assert (refuses(rules, "/a") is None) == allowed


async def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(RobotsRefused, match=r"its robots.txt forbids it; set respect_robots=false"):
        await robots("User-agent: *\nDisallow: /a").check(parse("https://example.org/a"), "Tidings")


def test_sitemaps_can_be_asked_for() -> None:
    found = robots(
        "User-agent: *\nCrawl-delay: 7\nSitemap: /map.xml\nsitemap: https://other.example/a.xml\n"
        "Sitemap: file:///etc/passwd\nSitemap:\nSitemap: /map.xml\nUser-agent: Fast\nCrawl-delay: x\n"
    )
    assert found.sitemaps() == ("https://example.org/map.xml", "https://other.example/a.xml")


def test_sitemaps_without_end_are_cut() -> None:
    assert len(robots("\n".join(f"Sitemap: /{n}" for n in range(1_200))).sitemaps()) == 1_000


def test_an_agent_is_known_by_its_first_word() -> None:
    assert token("Tidings/1.0 (+https://example.org)") == "tidings"
    assert token("  My_Bot-2 x") == "my_bot-2"
    assert token("(nothing)") == "*"


def test_thousands_of_agents_for_thousands_of_rules_are_no_bomb() -> None:
    agents = "\n".join(f"User-agent: a{n}" for n in range(15_000))
    rules = "\n".join(f"Disallow: /{n}" for n in range(15_000))
    found = robots(f"{agents}\nUser-agent: *\n{rules}")
    assert found.refuses(parse("https://example.org/14999"), "Tidings") is not None
    assert found.refuses(parse("https://example.org/x"), "Tidings") is None


def test_patterns_made_to_take_for_ever_do_not() -> None:
    assert refuses("User-agent: *\nDisallow: /" + "*a" * 5_000 + "b$", "/" + "a" * 5_000) is None
    assert refuses("User-agent: *\nDisallow: /x" + " " * 200_000 + "y", "/a") is None


def test_a_few_agents_are_remembered_not_all() -> None:
    found = robots("User-agent: *\nDisallow: /a")
    for n in range(20):
        assert found.refuses(parse("https://example.org/a"), f"agent{n}")
    assert len(found._parsed) <= 4


async def test_a_long_file_is_asked_without_holding_up_others() -> None:
    here = threading.get_ident()
    long = robots("User-agent: *\n" + "Disallow: /*b\n" * 5_000)
    threads: list[int] = []
    long.refuses = lambda *asked: threads.append(threading.get_ident()) or Robots.refuses(long, *asked)
    with pytest.raises(RobotsRefused, match="forbids it"):
        await long.check(parse("https://example.org/b"), "Tidings")
    with pytest.raises(RobotsRefused):
        await robots("User-agent: *\nDisallow: /b").check(parse("https://example.org/b"), "Tidings")
    assert threads
    assert here not in threads


async def test_rules_that_are_forgotten_meanwhile_are_used_to_the_end() -> None:
    found = robots("User-agent: *\n" + "Disallow: /a\n" * 5_000)
    refused: list[str] = []

    async def ask(agent: str) -> None:
        with pytest.raises(RobotsRefused, match="forbids it"):
            await found.check(parse("https://example.org/a"), agent)
        refused.append(agent)

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(ask, f"agent{n}")
    assert len(refused) == 20


class Source:
    """Gives a robots.txt, or what else it is told to, and counts."""

    def __init__(self, *answers: tuple[int, bytes] | Exception, truncated: bool = False) -> None:
        self._answers = list(answers)
        self._truncated = truncated
        self.asked: list[str] = []

    async def __call__(self, url: Url) -> Response:
        self.asked.append(str(url))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        await anyio.lowlevel.checkpoint()
        if isinstance(answer, Exception):
            raise answer
        now = datetime.now(UTC)
        return Response(str(url), str(url), answer[0], {}, answer[1], "", now, truncated=self._truncated)


PAGE = parse("https://example.org:8443/a?b")
NO = (200, b"User-agent: *\nDisallow: /")
YES = (200, b"")


async def allowed(memory: RobotsCache, source: Source) -> bool:
    return (await memory.of(PAGE, source)).refuses(PAGE, "Tidings") is None


async def test_a_file_is_asked_for_once_in_a_day_for_each_origin() -> None:
    time = Time()
    memory, source = RobotsCache(time), Source(NO, YES)
    assert not await allowed(memory, source)
    time.now += DAY - 1
    assert not await allowed(memory, source)
    assert source.asked == ["https://example.org:8443/robots.txt"]
    time.now += 2
    assert await allowed(memory, source)
    await memory.of(parse("http://example.org/"), source)
    assert source.asked[2:] == ["http://example.org/robots.txt"]


async def test_all_who_ask_at_once_share_one_request() -> None:
    memory, source = RobotsCache(Time()), Source(NO)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(allowed, memory, source)
    assert len(source.asked) == 1
    assert memory._loading == {}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429, 451])
async def test_a_site_without_the_file_allows_everything(status: int) -> None:
    assert await allowed(RobotsCache(Time()), Source((status, b"User-agent: *\nDisallow: /")))


@pytest.mark.parametrize("status", [500, 502, 503, 599])
async def test_a_site_that_fails_allows_nothing_for_a_while(status: int) -> None:
    time = Time()
    memory, source = RobotsCache(time), Source((status, b""), YES)
    found = await memory.of(PAGE, source)
    with pytest.raises(RobotsRefused, match=rf"not fetched: its robots.txt is unavailable \(status {status}\)"):
        await found.check(PAGE, "Tidings")
    assert not await allowed(memory, source)
    assert len(source.asked) == 1
    time.now += 61
    assert await allowed(memory, source)


async def test_an_older_copy_is_better_than_none() -> None:
    time = Time()
    memory, source = RobotsCache(time), Source(YES, (503, b""), NO)
    assert await allowed(memory, source)
    time.now += DAY + 1
    assert await allowed(memory, source)
    time.now += 61
    assert not await allowed(memory, source)


async def test_a_site_out_of_reach_is_said_to_be_so_and_not_remembered() -> None:
    where = str(replace(PAGE, target="/robots.txt"))
    memory, source = RobotsCache(Time()), Source(Unreachable("gone", url=where), YES)
    with pytest.raises(Unreachable):
        await memory.of(PAGE, source)
    assert await allowed(memory, source)


async def test_a_file_that_leads_astray_allows_nothing() -> None:
    where = str(replace(PAGE, target="/robots.txt"))
    for error in (TooManyRedirects("in a circle", url=where), Unreachable("gone", url="https://other.example/")):
        assert not await allowed(RobotsCache(Time()), Source(error))


async def test_a_rule_that_was_cut_in_two_does_not_count() -> None:
    text = b"User-agent: *\nDisallow: /x\nDisallow: /"
    assert await allowed(RobotsCache(Time()), Source((200, text), truncated=True))
    assert not await allowed(RobotsCache(Time()), Source((200, text)))


async def test_what_is_not_text_and_what_begins_with_a_mark_is_read_all_the_same() -> None:
    assert not await allowed(RobotsCache(Time()), Source((200, b"\xef\xbb\xbfUser-agent: *\nDisallow: /")))
    assert not await allowed(RobotsCache(Time()), Source((200, b"\xff\xfe\nUser-agent: *\nDisallow: /")))


async def test_only_so_many_sites_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.web.fetch.robots._MOST_SITES", 3)
    memory, source = RobotsCache(Time()), Source(YES)
    for n in (1, 2, 3, 1, 4, 1, 2):
        await memory.of(parse(f"https://site{n}.example/"), source)
    assert [url[12:13] for url in source.asked] == ["1", "2", "3", "4", "2"]


async def test_large_files_are_remembered_only_as_far_as_memory_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.web.fetch.robots._MOST_TEXT", 1_000)
    memory, source = RobotsCache(Time()), Source((200, b"#" * 400))
    for n in (1, 2, 1, 3, 1, 2):
        await memory.of(parse(f"https://site{n}.example/"), source)
    assert [url[12:13] for url in source.asked] == ["1", "2", "3", "2"]

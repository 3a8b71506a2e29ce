"""Changes that are none: what stands beside the content differs with each look, and the content stays as it was."""

import random
from collections.abc import Callable

import pytest

from tests.web.shelf import Changing, both, shelf
from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import ExtractOptions

pytestmark = pytest.mark.anyio

WORDS = ("market", "winter", "report", "garden", "city", "council", "budget", "recipe", "travel", "music", "storm")


def title(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=6)).capitalize()


def related(chance: random.Random) -> str:
    rows = "".join(f'<li><a href="/{chance.random()}">{title(chance)}</a></li>' for _ in range(chance.randint(3, 8)))
    return f'<div class="c{chance.randint(1, 9)}"><h3>You may also like</h3><ul>{rows}</ul></div>'


def advertisement(chance: random.Random) -> str:
    return f'<aside class="ad-slot"><p>{title(chance)}, {title(chance)} and {title(chance)}. Buy now.</p></aside>'


def counter(chance: random.Random) -> str:
    number = chance.randint(2, 99_999)
    return f"<p>{number:,} views, {number % 50} comments. Updated {number % 59 + 1} minutes ago.</p>"


def story(beside: str = "", inside: str = "", said: str = "The ferry sails at noon.") -> str:
    """A page with doubtful blocks: short ones, and lists of links that could be content."""
    paragraphs = "".join(
        f"<p>Part {number}: the harbour board reports on the ferries, the weather and the price of fish. {said}</p>"
        for number in range(6)
    )
    doubtful = "".join(f"<div class=x><a href=/{n}>Chapter {n}</a> <span>of the guide</span></div>" for n in range(8))
    head = "<html><head><title>Harbour</title></head><body><nav><a href=/>Home</a> <a href=/a>About</a></nav>"
    return f"{head}<div class=y>{paragraphs}{inside}{doubtful}</div>{beside}<footer>All rights reserved</footer></body>"


@pytest.mark.parametrize("noise", [related, advertisement, counter])
async def test_what_stands_beside_the_content_is_no_change_and_the_content_still_is(
    noise: Callable[[random.Random], str],
) -> None:
    chance = random.Random(1)
    page = Changing(story(noise(chance)), "text/html")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        for look in range(8):
            part = noise(chance) if look % 3 or noise is counter else ""
            page.body = story(inside=part) if look % 2 and noise is not counter else story(part)
            await here.later()
            assert here.heard()[0] == [], look
        page.body = story(noise(chance), said="The ferry does not sail.")
        await here.later()
        assert here.heard()[0] == both(page_id)


def read(body: str, prior: str = "") -> tuple[str, str]:
    found = extract(body.encode(), "text/html", "https://a.example/", ExtractOptions(prior=prior))
    return " ".join(found.text.split()), found.memory


def test_a_block_keeps_what_was_decided_about_it_until_it_is_gone_from_the_page() -> None:
    page = story()
    text, memory = read(page)
    assert "Part 3:" in text
    # Nobody would choose these now.
    buried = page.replace("<p>", "<nav class=menu><a href=/>").replace("</p>", "</a></nav>")
    assert "Part 3:" not in read(buried)[0]
    assert "Part 3:" in read(buried, memory)[0]
    gone = read(page.replace("Part 3: the harbour board", "Item three: the council"), memory)[0]
    assert "Item three" in gone
    assert "Part 3:" not in gone


def test_a_memory_that_cannot_be_read_is_none() -> None:
    plain, memory = read(story())
    assert memory
    for broken in ("\N{SNOWMAN}", "~", memory[:-1], "x" * 40):
        assert "ferry" in read(story(), broken)[0]
    assert read(story(), memory) == (plain, memory)

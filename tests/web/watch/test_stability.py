"""Changes that are none: what stands beside the content differs with each look, and the content stays as it was."""

import random
from collections.abc import Callable

import pytest

from tests.web.shelf import Changing, both, shelf
from tidings.web.extract.model import ExtractOptions
from tidings.web.extract.pool import extract
from tidings.web.resources import difference

pytestmark = pytest.mark.anyio

WORDS = ("market", "winter", "report", "garden", "city", "council", "budget", "recipe", "travel", "music", "storm")


def title(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=6)).capitalize()


def related(chance: random.Random) -> str:
    rows = "".join(f'<li><a href="/{chance.random()}">{title(chance)}</a></li>' for _ in range(chance.randint(3, 8)))
    return f'<div class="c{chance.randint(1, 9)}"><h3>You may also like</h3><ul>{rows}</ul></div>'


def advertisement(chance: random.Random) -> str:
    return f'<aside class="ad-slot"><p>{title(chance)}, {title(chance)} and {title(chance)}. Buy now.</p></aside>'


def cards(chance: random.Random) -> str:
    made = ""
    for _ in range(chance.randint(3, 6)):
        text = f"{title(chance)}, {title(chance)} and {title(chance)}…"
        made += f"<div><h4><a href=/{chance.random()}>{title(chance)}</a></h4><p>{text}</p><time>5 Oct</time></div>"
    return f"<div class=box><h3>Related articles</h3>{made}</div>"


def promotion(chance: random.Random) -> str:
    return f"<div class=promo><p>{title(chance)}, {title(chance)}. {title(chance)}.</p></div>"


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


@pytest.mark.parametrize("noise", [cards, promotion])
async def test_what_was_already_inside_the_content_at_the_first_look_is_no_change(
    noise: Callable[[random.Random], str],
) -> None:
    chance = random.Random(2)
    long = "The ferry sails at noon, and those who come late wait for the next one in the old hall. " * 8
    page = Changing(story(inside=noise(chance), said=long), "text/html")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        for look in range(4):
            page.body = story(inside=noise(chance) if look % 2 else "", said=long)
            await here.later()
            assert here.heard()[0] == [], look
        page.body = story(inside=noise(chance), said="The ferry does not sail.")
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


def test_a_short_line_beside_prose_that_is_left_out_is_told_of() -> None:
    beside = "<p><a href=/1>A</a></p><form><p>Ask the harbour board by post or in its office.</p>{}</form>"
    for added in ("", "<p>Bring a rope.</p>"):
        text, memory = read(story(beside=beside.format(added)))
        assert "Bring a rope." not in text
        assert ("Bring a rope." in memory) == bool(added)
    assert read("<p>One line of nine words that say very little.")[1]


@pytest.mark.parametrize("number", range(12))
def test_a_page_that_is_read_again_is_the_same(number: int) -> None:
    chance = random.Random(number)
    inside = with_ad(chance, f"{title(chance)[:5]}-x") + related(chance)
    text, memory = read(story(inside=inside, beside=related(chance) + advertisement(chance)))
    chance = random.Random(number)
    inside = with_ad(chance, f"{title(chance)[:5]}-x") + related(chance)
    assert read(story(inside=inside, beside=related(chance) + advertisement(chance)), memory) == (text, memory)


def test_a_memory_that_cannot_be_read_is_none() -> None:
    plain, memory = read(story())
    assert memory
    for broken in ("\N{SNOWMAN}", "~", memory[:-1], "x" * 40):
        assert "ferry" in read(story(), broken)[0]
    assert read(story(), memory) == (plain, memory)


def test_a_page_whose_names_all_differ_is_the_same() -> None:
    page = story("<div class=aside><p>Part 3</p></div>", "<h2>Quick summary</h2><div class=x><b>Recommended:</b></div>")
    text, memory = read(page)
    for number in range(3):
        named = page.replace("<div", f"<div id=n{number}").replace("class=", f"class=css{number}-")
        again, memory = read(named.replace("<p>", f"<p class=p{number}>"), memory)
        assert again == text


def test_a_short_line_beside_a_chosen_block_is_chosen() -> None:
    page = story()
    memory = read(page)[1]
    assert "No ferry today." in read(page.replace("<p>Part 4", "<p class=new>No ferry today.</p><p>Part 4"), memory)[0]


@pytest.mark.parametrize(
    "noise",
    [
        "<div id=onetrust-banner-sdk><p>We use cookies for the pages that you see, and for all the others.</p></div>",
        "<ins class=adsbygoogle><p>Buy the best oars of the harbour, today only, at half of the price.</p></ins>",
    ],
)
def test_banners_are_left_out_from_the_first_look_on(noise: str) -> None:
    text, memory = read(story(noise))
    assert text == read(story())[0]
    assert read(story(), memory)[0] == text


def tiles(*names: str) -> str:
    rows = (
        f"<div class=card><h4><a href=/{name}>{name} of the week</a></h4><p>From € 9 in blue</p></div>"
        for name in names
    )
    head = "<html><head><title>Boats</title></head><body class=category><h1>Boats</h1><div class=product-grid>"
    return f"{head}{''.join(rows)}</div></body></html>"


async def test_the_order_of_a_listing_is_no_change_and_what_is_listed_is() -> None:
    names = ["Oars", "Nets", "Sails", "Ropes", "Hooks", "Lamps", "Masts", "Rafts"]
    page = Changing(tiles(*names), "text/html")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = tiles(*reversed(names))
        await here.later()
        assert here.heard()[0] == []
        page.body = tiles(*names[:-1], "Boats")
        await here.later()
        assert here.heard()[0] == both(page_id)


def with_ad(chance: random.Random, around: str = "css-1f3") -> str:
    return f'<div class="{around}"><span>Advertisement</span><p>{title(chance)} and {title(chance)}. Buy.</p></div>'


@pytest.mark.parametrize("around", ["css-1f3", "ad-slot", "more-stories"])
def test_an_advertisement_is_left_out_at_the_first_look_already(around: str) -> None:
    chance = random.Random(2)
    first, memory = read(story(inside=with_ad(chance, around)))
    assert "Buy" not in first
    assert read(story(inside=with_ad(chance, around)), memory)[0] == first
    assert read(story(), memory)[0] == first


def test_a_part_that_is_most_of_the_page_is_never_left_out_for_its_name() -> None:
    page = story().replace("<div class=y>", '<div class="ad-slot related-posts">')
    assert "Part 3:" in read(page)[0]


def test_a_block_between_two_known_ones_takes_over_what_was_decided_about_the_one_before() -> None:
    aside = "<div class=x><a href=/0>Chapter of {}</a> <span>of the guide</span></div>"
    page = story(inside=aside.format("one"))
    text, memory = read(page)
    edited = read(page.replace("Part 3: the harbour board", "A new beginning: nobody"), memory)[0]
    assert "A new beginning" in edited
    assert ("Chapter of one" in text) == (
        "Chapter of nothing" in read(story(inside=aside.format("nothing")), memory)[0]
    )


def test_prose_beside_a_chosen_block_is_chosen() -> None:
    page = story()
    memory = read(page)[1]
    more = "<p style='x'><i>Zebras were seen on the ferry, and nobody at the harbour could say why.</i></p>"
    assert "Zebras" in read(page.replace("<p>Part 4", f"{more}<p>Part 4"), memory)[0]


@pytest.mark.parametrize(("around", "chosen"), [("div", True), ("footer", False), ("aside", False)])
def test_new_prose_is_chosen_wherever_it_stands_except_in_the_frame_of_a_page(around: str, chosen: bool) -> None:
    first = extract(
        story(f"<{around} class=z><p>Imprint</p></{around}>").encode(), "text/html", "https://harbour.example/"
    )
    new = "The pier is closed because of a storm until the end of next week."
    page = story(f"<{around} class=z><p>Imprint</p><p>{new}</p></{around}>")
    options = ExtractOptions(prior=first.memory)
    assert (new in extract(page.encode(), "text/html", "https://harbour.example/", options).text) == chosen


def test_an_advertisement_beside_a_picture_does_not_decide_about_it() -> None:
    picture = f"{'<div>' * 5}<img src=/pier.png alt='The pier in winter'>{'</div>' * 5}"
    page = story().replace("<p>Part 4", f"{picture}<p>Part 4")
    first = extract(page.encode(), "text/html", "https://harbour.example/")
    assert "The pier in winter" in first.markdown
    beside = page.replace(picture, f"{picture}{advertisement(random.Random(1))}")
    options = ExtractOptions(prior=first.memory)
    assert extract(beside.encode(), "text/html", "https://harbour.example/", options).markdown == first.markdown


SIGN_UP = "<form class=signup><h4>Sign up</h4><p>We write to you as soon as a cabin of a ferry is free.</p>{}</form>"
ROW = "<table><tr><td>Ferry</td><td>Tuesday</td></tr>{}</table>"
BOUGHT = "<div><h5>Customers also bought</h5><b>{}</b></div>"
LONG = "<p>The harbour office answers letters, but only those with a stamp on them.</p>"
OTHER = "<p>The old ticket office is closed, and nobody at all knows when it opens again.</p>"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("<p>€ 49.90</p>", "<p>€ 44.90</p>", "+€ 44.90"),
        ("<b>Sold out</b>", "<b>Available now</b>", "-Sold out"),
        (LONG, "", "-The harbour office"),
        ("", ROW.format(""), "Tuesday"),
        (ROW.format("<tr><td>Boat</td></tr>"), ROW.format(""), "-Boat"),
        (LONG + OTHER, OTHER + LONG, ""),
        (f"<div style='display: none'>{LONG}</div>", "", ""),
        (f"<div class=recommended>{LONG}</div>", "", ""),
        (BOUGHT.format("Oars € 12"), BOUGHT.format("Nets € 9"), ""),
        (f"<nav>{LONG}</nav>", f"<nav>{OTHER}</nav>", ""),
        ("<p>12 people are watching</p>", "<p>13 people are watching</p>", ""),
    ],
)
async def test_what_the_text_leaves_out_is_compared_if_it_may_be_content(before: str, after: str, told: str) -> None:
    page = Changing(story(SIGN_UP.format(before)), "text/html")
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        first = (await here.library.fetch(here.site.url("/"))).entry.packet["content"]
        assert "Sign up" not in first
        page.body = story(SIGN_UP.format(after))
        await here.later()
        assert here.heard()[0] == (both(page_id) if told else [])
        stored = await here.store.page_of(page_id)
        assert stored is not None
        diff = (await difference(here.store, stored))["diff"]
        # New blocks become part of the text.
        assert ("Elsewhere on the page" in diff) == bool(told and before)
        assert told in diff if told else "Nothing changed" in diff
        await here.later()
        assert here.heard()[0] == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [("Harbour", "Harbour: all ferries are full", True), ("(2) Harbour", "(13) Harbour", False)],
)
async def test_the_title_of_the_window_is_content_except_a_number_of_messages(
    before: str, after: str, told: bool
) -> None:
    page = Changing(
        story().replace("<title>Harbour<", f"<title>{before}<").replace("<p>Part 0", "<h1>Harbour</h1><p>"), "text/html"
    )
    async with shelf({"/": page}) as here:
        page_id = await here.watch()
        page.body = page.body.replace(f"<title>{before}<", f"<title>{after}<")
        await here.later()
        assert here.heard()[0] == (both(page_id) if told else [])


@pytest.mark.parametrize(
    ("before", "after", "kept"), [("<h3>More news</h3>", "", False), ("", "<b>More news</b>", True)]
)
def test_a_title_stands_before_what_it_is_about(before: str, after: str, kept: bool) -> None:
    page = story(f"<div class=z>{before}{LONG}{after}</div>")
    memory = read(page.replace(LONG, ""))[1]
    assert ("stamp" in read(page, memory)[0]) == kept

"""Facts that pages state for programs."""

import json
from typing import Any

import pytest

from tests.web.shelf import Changing, both, shelf
from tidings.web.extract.pool import extract
from tidings.web.resources import difference

STORY = "<p>A mug made of stoneware, which keeps tea warm for an hour and fits under most coffee machines.</p>"


def read(head: str = "", body: str = "") -> dict[str, str]:
    page = f"<html><head><title>Mug</title>{head}</head><body><h1>Mug</h1>{STORY}{body}</body></html>"
    return dict(extract(page.encode(), "text/html", "https://shop.example/mug").facts)


def data(*things: dict[str, Any]) -> str:
    return f'<script type="application/ld+json">{json.dumps(list(things))}</script>'


def product(name: str = "Mug", price: object = "49.90", **more: Any) -> dict[str, Any]:
    offer = {"@type": "Offer", "price": price, "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}
    return {"@type": "Product", "name": name, "offers": offer, **more}


MICRODATA = """<div itemscope itemtype="http://schema.org/Product"><span itemprop="name">Mug</span>
    <div itemprop="offers" itemscope itemtype="http://schema.org/Offer"><meta itemprop="priceCurrency" content="EUR">
    <span itemprop="price" content="49.90">49,90 €</span><link itemprop="availability" href="http://schema.org/SoldOut">
    </div><span itemprop="aggregateRating" itemscope><b itemprop="ratingValue">4.5</b></span></div>"""


@pytest.mark.parametrize(
    ("head", "body", "facts"),
    [
        (data(product()), "", {"price": "49.90", "currency": "EUR", "availability": "InStock"}),
        (data(product(isRelatedTo=product("Cup", 3))), "", {"price": "49.90"}),
        (data(product(aggregateRating={"ratingValue": 4.5})), "", {"rating": "4.5"}),
        (data({"@type": "SoftwareApplication", "softwareVersion": "2.1.0"}), "", {"version": "2.1.0"}),
        (data({"@type": "Event", "startDate": "2026-05-01"}), "", {"starts": "2026-05-01"}),
        (data({"@type": "Product", "offers": {"lowPrice": 5, "highPrice": 20}}), "", {"price": "5, 20"}),
        ("", MICRODATA, {"price": "49.90", "currency": "EUR", "availability": "SoldOut", "rating": "4.5"}),
        ('<meta property="product:price:amount" content="49.90">', "", {"price": "49.90"}),
        ("", '<div class="product-price">€ 1.249,90</div><b>Out of stock</b>', {"price": "1249.90", "currency": "€"}),
        ("", '<div class="price-was">€ 60</div><div class="price-now">€ 50</div>', {"price": "50"}),
    ],
)
def test_facts_are_found_where_pages_state_them(head: str, body: str, facts: dict[str, str]) -> None:
    found = read(head, body)
    assert {name: found.get(name) for name in facts} == facts


@pytest.mark.parametrize(
    ("body", "price"),
    [
        ("<h3>$49.90 $59.90</h3><p>Free shipping over $100.</p>", "49.90"),
        ("<div>From 49,90 € incl. VAT</div>", "49.90"),
        ("<p class='pricing-box'>$49.90</p>", "49.90"),
        ("<div>Current price: $49.90 Original price: $59.90 Save $10.00</div>", "49.90"),
        ("<div class=card><p>$29.90</p></div><div class=price>$49.90</div>", "49.90"),
        ("<p>$29/month</p>", None),
        ("<p class=old-price>$59.90</p>", None),
        ("<p>A cup costs $20 in most shops, and this mug costs more.</p>", None),
        (f"{STORY * 16}<p>$20.00</p>", None),
    ],
)
def test_a_price_is_found_beside_the_title(body: str, price: str | None) -> None:
    assert read(body=body).get("price") == price


def test_a_price_may_stand_before_the_title_and_a_menu_may_have_a_title() -> None:
    page = "<h1>Menu</h1><p class=price>$9.90</p><nav>{}</nav><div class=price>$49.90</div><h1>Tea mug</h1>"
    body = page.format("<p>Shop</p>" * 30).encode()
    head = b"<title>Tea mug</title><meta property=og:title content='Tea mug'>"
    assert extract(head + body, "text/html", "https://shop.example/mug").facts["price"] == "49.90"


def test_an_article_about_prices_has_none() -> None:
    assert "price" not in read('<meta property="og:type" content="article">', "<h3>$49.90</h3>")


def test_several_products_have_no_price_in_common_and_broken_data_states_nothing() -> None:
    assert "price" not in read(data(product("Mug", 1), product("Cup", 2)))
    assert "price" not in read("", MICRODATA + MICRODATA)
    assert read(data({"@type": "Product", "offers": [[{"price": {"x": []}}], None]})) == {}
    assert read('<script type="application/ld+json">{"@type":</script>') == {}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"49.90"', '"44.90"', "price 49.90 → 44.90 EUR"),
        ("InStock", "OutOfStock", "availability InStock → OutOfStock"),
        ("<title>Mug</title>", "<title>Large mug</title>", "title Mug → Large mug"),
        ('"ratingValue": 4.5', '"ratingValue": 4.6', "rating 4.5 → 4.6"),
    ],
)
async def test_a_change_that_the_text_does_not_show_is_told_and_named(old: str, new: str, line: str) -> None:
    head = "<title>Mug</title>" + data(product(aggregateRating={"ratingValue": 4.5}))
    shop = Changing(f"<html><head>{head}</head><body>{STORY}</body></html>", "text/html")
    async with shelf({"/": shop}) as here:
        page_id = await here.watch()
        shop.body = shop.body.replace(old, new)
        await here.later()
        assert here.heard()[0] == both(page_id)
        page = await here.store.page_of(page_id)
        assert page is not None
        assert line in (await difference(here.store, page))["diff"]
        await here.later()
        assert here.heard()[0] == []

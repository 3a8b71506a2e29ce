"""Estimates of tokens: near enough, for any text, and quickly."""

# ruff: noqa: RUF001 - texts in many scripts

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.web.documents.budget import estimate

ENGLISH = (
    "The harbour was quiet when the first boats came in. Fishermen carried their crates to the market, where the "
    "buyers were already waiting, and by eight o'clock most of the catch had been sold. Later in the morning the "
    "tourists arrived, took photographs of the nets, and asked when the ferry to the island would leave."
)
CODE = '''def total(prices, discount=0.0):
    """Add up prices and take off a discount."""
    result = sum(price.amount for price in prices if price.is_valid())
    if discount > 0:
        result -= result * discount
    return round(result, 2)
'''
CHINESE = "海港的早晨很安静，第一批渔船刚刚回来。渔民们把箱子抬到市场，买家已经在那里等候了。"
JAPANESE = "港の朝は静かで、最初の船が戻ってきたところだった。漁師たちは箱を市場まで運び、買い手はもう待っていた。"
KOREAN = (
    "항구의 아침은 조용했고 첫 배들이 막 돌아오고 있었다. "
    "어부들은 상자를 시장으로 옮겼고 상인들은 벌써 기다리고 있었다."
)

# What two vocabularies, of 100,000 and 200,000 entries, make of these texts on average.
MEASURED = [(ENGLISH, 65), (CODE, 59), (CHINESE, 47.5), (JAPANESE, 49.5), (KOREAN, 50.5)]


@pytest.mark.parametrize(("text", "tokens"), MEASURED)
def test_an_estimate_is_near_what_tokenisers_give(text: str, tokens: float) -> None:
    assert estimate(text) == pytest.approx(tokens, rel=0.15)


@given(st.text())
def test_only_nothing_is_no_token(text: str) -> None:
    assert (estimate(text) == 0) == (text == "")


@given(st.text(), st.text())
def test_two_texts_are_about_as_many_tokens_as_both(one: str, other: str) -> None:
    assert estimate(one + "\n" + other) <= 2 + estimate(one + "\n") + estimate("\n" + other)


@pytest.mark.parametrize("unit", ["a", "A", "1", " ", "\n", "(", "漢", "😀", "aB1 "])
def test_long_texts_of_one_thing_are_estimated(unit: str) -> None:
    assert estimate(unit * 100_000) > 0

"""Dates in the formats of moment.js."""

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.files.obsidian import moment_format

WHEN = datetime(2024, 3, 5, 14, 7, 9, 123456).astimezone()


@pytest.mark.parametrize(
    ("fmt", "text"),
    [
        ("YYYY-MM-DD", "2024-03-05"),
        ("YYYYMMDD", "20240305"),
        ("YY.M.D", "24.3.5"),
        ("Y y YYYYY YYYYYY", "2024 2024 02024 +002024"),
        ("YYYY/MM-MMMM/YYYY-MM-DD-dddd", "2024/03-March/2024-03-05-Tuesday"),
        ("ddd dd d do e E", "Tue Tu 2 2nd 2 2"),
        ("MMM Do, YYYY", "Mar 5th, 2024"),
        ("Mo Q Qo", "3rd 1 1st"),
        ("DDD DDDo DDDD", "65 65th 065"),
        ("GGGG-[W]WW-E GG W Wo", "2024-W10-2 24 10 10th"),
        ("gggg-[w]ww gg w wo", "2024-w10 24 10 10th"),
        ("HH:mm:ss.SSS", "14:07:09.123"),
        ("H h hh k kk m s S SS", "14 2 02 14 14 7 9 1 12"),
        ("h:mm A a", "2:07 PM pm"),
        ("L", "03/05/2024"),
        ("LL", "March 5, 2024"),
        ("LLLL", "Tuesday, March 5, 2024 2:07 PM"),
        ("ll LT LTS l", "Mar 5, 2024 2:07 PM 2:07:09 PM 3/5/2024"),
        ("[Today is] dddd", "Today is Tuesday"),
        ("[LL] [", "LL ["),
        (r"\YYYY \L \x \-", "YYYY L x -"),
        ("Tag über 日記", "Tpmg üb2r 日記"),
        ("", ""),
    ],
)
def test_a_date_is_written_as_moment_writes_it(fmt: str, text: str) -> None:
    assert moment_format(WHEN, fmt) == text


def test_a_time_has_an_offset_and_seconds_since_1970() -> None:
    offset = WHEN.strftime("%z")
    assert moment_format(WHEN, "ZZ Z") == f"{offset} {offset[:3]}:{offset[3:]}"
    assert moment_format(WHEN, "X x") == f"{int(WHEN.timestamp())} {int(WHEN.timestamp() * 1000)}"


@pytest.mark.parametrize(
    ("day", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (12, "12th"), (13, "13th"), (22, "22nd")]
)
def test_ordinals_are_english(day: int, text: str) -> None:
    assert moment_format(date(2024, 1, day), "Do") == text


@pytest.mark.parametrize(
    ("day", "iso", "american"),
    [
        (date(2020, 12, 31), "2020-53", "2021-01"),
        (date(2021, 1, 1), "2020-53", "2021-01"),
        (date(2022, 1, 1), "2021-52", "2022-01"),
        (date(2022, 1, 2), "2021-52", "2022-02"),
        (date(2023, 1, 1), "2022-52", "2023-01"),
        (date(9999, 12, 31), "9999-52", "10000-01"),
    ],
)
def test_weeks_at_the_turn_of_the_year_belong_to_one_year(day: date, iso: str, american: str) -> None:
    assert moment_format(day, "GGGG-WW") == iso
    assert moment_format(day, "gggg-ww") == american


@given(st.text(max_size=20), st.dates())
def test_no_format_is_too_odd(fmt: str, day: date) -> None:
    if not {"X", "x", "Z"} & {*fmt}:  # Not every system knows the seconds of every year.
        assert isinstance(moment_format(day, fmt), str)

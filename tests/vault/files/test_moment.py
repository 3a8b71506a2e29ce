"""Dates in the formats of moment.js."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.files.moment import moment_format, moment_parse

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


FORMATS = [
    "YYYY-MM-DD",
    "YYYYMMDD",
    "D.M.YYYY",
    "YYYY/MM/YYYY-MM-DD",
    "YYYY/MM-MMMM/YYYY-MM-DD-dddd",
    "MMM Do, YYYY [at] Do",
    "dddd, Mo, D Y",
    "YYYY-DDDD",
    "DDDo y",
    "DDD/YYYY",
    "GGGG-[W]WW-E",
    "GGGG W dddd",
    "[Week] w gggg ddd",
    "gggg wo dd",
    "gggg-ww-e",
    "gggg-ww-do",
    "YYYYYY-MM-DD",
    "YYYYY-MM-DD",
    "LL",
    "YYYY-MM-DD HHmm",
    "MM.DD.YYYY h:mm:ss A Z ZZ SSS kk",
    "Qo Q YYYY MM DD",
]


@given(st.dates(date(100, 1, 9), date(9998, 12, 20)), st.sampled_from(FORMATS))
def test_a_date_comes_back_from_its_text(day: date, fmt: str) -> None:
    if "Z" in fmt and day.year < 1902:  # Offsets of old had seconds.
        return
    assert moment_parse(moment_format(day, fmt), fmt) == day


@given(st.dates(date(1969, 1, 9), date(2068, 12, 20)), st.sampled_from(["YY-MM-DD", "GG-WW-E", "gg-ww-d", "X", "x"]))
def test_two_digits_mean_a_year_of_this_age(day: date, fmt: str) -> None:
    assert moment_parse(moment_format(day, fmt), fmt) == day


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_text_and_no_format_is_too_odd(text: str, fmt: str) -> None:
    found = moment_parse(text, fmt)
    assert found is None or isinstance(found, date)
    if "X" not in fmt and "x" not in fmt:
        moment_format(date(2024, 1, 1) + timedelta(len(text)), fmt)


@pytest.mark.parametrize(
    ("text", "fmt"),
    [
        ("2024-02-30", "YYYY-MM-DD"),
        ("2024-2-3", "YYYY-MM-DD"),
        ("notes", "YYYY-MM-DD"),
        ("2024-03-05 Monday", "YYYY-MM-DD dddd"),
        ("2024/03/2025-03-05", "YYYY/MM/YYYY-MM-DD"),
        ("2024-13-01", "YYYY-MM-DD"),
        ("0000-01-01", "YYYY-MM-DD"),
        ("2023-366", "YYYY-DDDD"),
        ("2024-W10", "GGGG-[W]WW"),
        ("2024-10-9", "GGGG-WW-E"),
        ("2024 Tue", "YYYY ddd"),
        ("03-05", "MM-DD"),
        ("99999999999999", "X"),
        ("٢٠٢٤-03-05", "YYYY-MM-DD"),
    ],
)
def test_what_is_no_day_in_the_format_is_none(text: str, fmt: str) -> None:
    assert moment_parse(text, fmt) is None

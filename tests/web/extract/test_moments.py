"""Dates as they are written, and as they are told."""

import pytest

from tidings.web.extract.html.page import moment, pdf_moment


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("Mon, 01 Jan 2024 09:30:00 +0100", "2024-01-01T09:30:00+01:00"),
        ("Mon, 01 Jan 2024 09:30:00 GMT", "2024-01-01T09:30:00+00:00"),
        ("Mon, 01 Jan 2024 09:30:00 EST", "2024-01-01T09:30:00-05:00"),
        ("01 January 2024 09:30:00 -0000", "2024-01-01T09:30:00+00:00"),
        ("  1 Jan\n24 09:30 GMT", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01T09:30:00Z", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01 09:30:00 +0100", "2024-01-01T09:30:00+01:00"),
        ("2024-01-01 09:30 UTC", "2024-01-01T09:30:00+00:00"),
        ("2024-01-01 09:30:00", "2024-01-01T09:30:00"),
        ("2024-01-01", "2024-01-01"),
        ("2024/1/2", "2024-01-02"),
        ("2024-13-45", None),
        ("yesterday", None),
        ("Mon, 99 Jan 2024 99:30:00 GMT", None),
        ("", None),
        (None, None),
        ("x" * 10_000, None),
    ],
)
def test_dates_of_feeds(written: str | None, told: str | None) -> None:
    assert moment(written) == told


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T12:00:00+01:00"),
        ("D:20240131120000-05'30", "2024-01-31T12:00:00-05:30"),
        ("D:20240131120000Z", "2024-01-31T12:00:00+00:00"),
        ("D:20240131120000Z00'00'", "2024-01-31T12:00:00+00:00"),
        ("20240131120000", "2024-01-31T12:00:00"),
        ("D:20240131", "2024-01-31"),
        ("D:2024", None),
        ("D:20241399", None),
        ("D:20240131990000", None),
        ("D:20240131120000+99'00'", None),
        ("2024-01-31", "2024-01-31"),
        ("Wed Jan 31", None),
        ("", None),
    ],
)
def test_dates_of_documents(written: str, told: str | None) -> None:
    assert pdf_moment(written) == told

"""Tags that may mean the same."""

import pytest

from tidings.vault.prompts import alike


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (["todo", "to-do"], "written differently"),
        (["cafe", "café"], "written differently"),
        (["read_later", "read-later"], "written differently"),
        (["project", "projects"], "singular and plural"),
        (["category", "categories"], "singular and plural"),
        (["work/box", "work/boxes"], "singular and plural"),
        (["class", "classes"], "singular and plural"),
        (["project", "proejct"], "one letter apart, perhaps misspelt"),
        (["meeting", "meting"], "one letter apart, perhaps misspelt"),
        (["research", "researck"], "one letter apart, perhaps misspelt"),
        (["area/garden", "area/gardne"], "one letter apart, perhaps misspelt"),
        (["idea", "work/idea"], "same name, nested in different tags"),
    ],
)
def test_tags_that_may_mean_the_same_are_named_once_with_the_reason(tags: list[str], why: str) -> None:
    assert alike({tag: 10 - at for at, tag in enumerate(tags)} | {"other": 5}) == [(why, tags)]


@pytest.mark.parametrize(
    "tags",
    [
        ["year/2023", "year/2024"],  # numbers are no misspellings
        ["cat", "car"],  # too short to tell
        ["gas", "ga"],
        ["boss", "bosun"],
        ["project", "progress"],
        ["a/bcde", "aa/bcd/e"],
        [],
    ],
)
def test_different_tags_are_left_alone(tags: list[str]) -> None:
    assert alike(dict.fromkeys(tags, 1)) == []


def test_the_most_used_come_first() -> None:
    counts = {"idea": 2, "ideas": 1, "projects": 5, "project": 50}

    assert [group for _, group in alike(counts)] == [["project", "projects"], ["idea", "ideas"]]

"""How many notes have which tag: the same, whether it was counted step by step or all at once."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vault.contents import contents, tagged
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.queries import TagCount
from tidings.vault.notes.model import key


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened = Index(Vault([tmp_path]), memory=True)
    yield opened
    opened.close()


def test_nested_tags_count_for_those_around_them(index: Index) -> None:
    index.apply([tagged("a.md", [("x/y", 1), ("x/y", 2), ("x", 3)]), tagged("b.md", [("x/z", 1)])])
    assert index.queries.tags() == [
        TagCount("x", "x", 1, 2),
        TagCount("x/y", "x/y", 1, 1),
        TagCount("x/z", "x/z", 1, 1),
    ]


def test_a_tag_is_shown_as_it_is_written_first(index: Index) -> None:
    index.apply([tagged("b.md", [("tag", 1)]), tagged("a.md", [("TAG", 5), ("Tag", 3)])])
    assert [tag.shown for tag in index.queries.tags()] == ["Tag"]
    index.apply([tagged("a.md", [("TAG", 2), ("Tag", 3)], digest="2")])
    assert [tag.shown for tag in index.queries.tags()] == ["TAG"]
    index.apply([], ["a.md"])
    assert [tag.shown for tag in index.queries.tags()] == ["tag"]


def test_a_tag_that_no_note_has_any_more_is_gone(index: Index) -> None:
    index.apply([tagged("a.md", [("x/y", 1)]), tagged("b.md", [("x", 1)])])
    index.apply([tagged("b.md", [], digest="2")])
    assert index.queries.tags() == [TagCount("x", "x", 0, 1), TagCount("x/y", "x/y", 1, 1)]
    index.apply([], ["a.md"])
    assert index.queries.tags() == []


Notes = dict[str, list[tuple[str, int]]]

TAGS = st.tuples(
    st.sampled_from(["a", "A", "a/b", "A/B", "a/B/c", "ab", "ß/x", "SS/X", "d", "a//b"]), st.integers(1, 3)
)
CHANGES = st.dictionaries(st.sampled_from(["1.md", "2.md", "x/3.md"]), st.none() | st.lists(TAGS, max_size=4))


def counted(notes: Notes) -> dict[str, tuple[str, int, int]]:
    """The tags by the rules, as plainly as possible."""
    own: dict[str, set[str]] = {}
    every: dict[str, set[str]] = {}
    first: dict[str, tuple[str, int, int, str]] = {}
    for path, tags in notes.items():
        for at, (tag, line) in enumerate(tags):
            own.setdefault(key(tag), set()).add(path)
            outer = tag
            while outer:
                every.setdefault(key(outer), set()).add(path)
                first[key(outer)] = min((path, line, at, outer), first.get(key(outer), ("~", 0, 0, "")))
                outer = outer.rpartition("/")[0]
    return {tag: (first[tag][3], len(own.get(tag, ())), len(paths)) for tag, paths in every.items()}


@given(st.lists(CHANGES, max_size=6))
def test_counting_step_by_step_gives_what_counting_all_at_once_gives(
    changes: list[dict[str, list[tuple[str, int]]]],
) -> None:
    with TemporaryDirectory() as folder:
        vault = Vault([Path(folder)])
        index, notes = Index(vault, memory=True), Notes()
        for number, change in enumerate(changes):
            entries = [tagged(path, tags, digest=str(number)) for path, tags in change.items() if tags is not None]
            gone = [path for path, tags in change.items() if tags is None]
            index.apply(entries, gone)
            notes |= {path: tags for path, tags in change.items() if tags is not None}
            for path in gone:
                notes.pop(path, None)
        assert {tag.key: tag[1:] for tag in index.queries.tags()} == counted(notes)
        again = Index(vault, memory=True)
        again.apply([tagged(path, tags) for path, tags in notes.items()])
        assert contents(index)["tag_counts"] == contents(again)["tag_counts"]
        index.close()
        again.close()

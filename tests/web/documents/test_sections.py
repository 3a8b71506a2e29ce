"""Headings: the outline, and what stands below what."""

from tidings.web.documents.markdown import Sections, blocks_of, common, outline_of
from tidings.web.documents.normalise import reading_minutes


def outline(content: str) -> list[tuple[int, str, str]]:
    return [(one["level"], one["text"], one["path"]) for one in outline_of(content, blocks_of(content))]


def test_each_heading_is_given_with_those_above_it() -> None:
    content = "# A\n\n## B\n\n#### D\n\n### C\n\n## E\n\n# F"
    assert outline(content) == [
        (1, "A", "A"),
        (2, "B", "A > B"),
        (4, "D", "A > B > D"),
        (3, "C", "A > B > C"),
        (2, "E", "A > E"),
        (1, "F", "F"),
    ]


def test_a_heading_is_its_words_without_markup() -> None:
    content = "## [![logo](https://e.org/l.png)](https://e.org) **The** [`tool`](https://e.org/t) \\_x\\_ C#"
    assert outline(content) == [(2, "logo The tool _x_ C#", "logo The tool _x_ C#")]


def test_a_heading_without_words_is_none() -> None:
    assert outline("# A\n\n##\n\n### B") == [(1, "A", "A"), (3, "B", "A > B")]


def test_a_very_long_heading_is_cut() -> None:
    ((_, text, path),) = outline("# " + "x" * 5_000)
    assert text == path
    assert len(text) == 301


def test_places_know_their_section() -> None:
    content = "before\n\n# A\n\nin a\n\n## B\n\nin b"
    sections = Sections(content, blocks_of(content))
    found = [sections.paths[sections.at(content.index(word))] for word in ("before", "# A", "in a", "in b")]
    assert found == [(), ("A",), ("A",), ("A", "B")]


def test_what_paths_share_is_their_beginning() -> None:
    assert common([("A", "B"), ("A", "C"), ("A", "B", "D")]) == ("A",)
    assert common([("A",), ("B",)]) == ()
    assert common([]) == ()


def test_the_reading_time_counts_words_or_the_characters_of_scripts_without_spaces() -> None:
    assert reading_minutes("word " * 2_000) == 10
    assert reading_minutes("字" * 3_000) == 10
    assert reading_minutes("ก" * 9_000) == 10
    assert reading_minutes("one word") == 1
    assert reading_minutes(" -- ") == 0

"""Differences: found, marked, and bounded; patches are shown as the changes they list."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings._kit.bounded_json import cut
from tidings.inspector.view.diffs import (
    Diff,
    change_shown,
    content_text,
    diff_texts,
    diff_values,
    pretty_text,
)
from tidings.inspector.view.items import ContentVersion

lines = st.lists(st.sampled_from(["a", "b", "c", "d e", "x y z", ""]), max_size=15)


def applied(old: list[str], diff: Diff) -> list[str]:
    """The old lines, changed as the diff says."""
    new: list[str] = []
    at = 0
    for hunk in diff.hunks:
        for line in hunk.lines:
            if line.old is not None:
                new += old[at : line.old - 1]
                at = line.old
                assert old[line.old - 1] == line.text
            if line.new is not None:
                while len(new) < line.new - 1:
                    new.append(old[at])
                    at += 1
                new.append(line.text)
    return new + old[at:]


@given(lines, lines, st.integers(0, 3))
def test_a_diff_leads_from_the_old_text_to_the_new(old: list[str], new: list[str], context: int) -> None:
    diff = diff_texts("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new), context=context)
    assert applied(old, diff) == new
    assert diff.same == (old == new)
    assert len(old) - diff.removed == len(new) - diff.added


def test_the_changed_words_are_marked() -> None:
    diff = diff_texts("- [ ] Freeze the API by Friday\n", "- [x] Freeze the API on 14 November\n")
    gone, come = diff.hunks[0].lines
    assert [piece.text for piece in gone.pieces if piece.changed] == [" ", "by", "Friday"]
    assert [piece.text for piece in come.pieces if piece.changed] == ["x", "on", "14 November"]
    assert diff.words == "1 line added, 1 removed"
    assert next(diff.unified()) == "@@ -1,1 +1,1 @@"


def test_lines_that_have_nothing_in_common_are_not_marked() -> None:
    diff = diff_texts("alpha beta\n", "1234 5678\n")
    assert not any(piece.changed for line in diff.hunks[0].lines for piece in line.pieces)


def test_json_is_compared_by_what_it_says() -> None:
    old, new = '{"b": 1, "a": [1, 2]}', '{\n "a": [1, 3],\n "b": 1}'
    assert diff_values(json.loads(old), json.loads(new)).words == "1 line added, 1 removed"
    assert pretty_text('{"b": 1, "a": 2}') == pretty_text('{"a":2,"b":1}')
    assert pretty_text("{not json") == "{not json"
    assert diff_values({"a": 1, "b": 2}, {"b": 2, "a": 1}).words == "nothing changed"


@pytest.mark.parametrize("alphabet", [["a", "b"], [str(number) for number in range(1_000_000)]], ids=["few", "many"])
def test_a_huge_text_is_compared_within_bounds(alphabet: list[str]) -> None:
    chance = random.Random(7)
    old = "\n".join(chance.choice(alphabet) for _ in range(100_000))
    new = "\n".join(chance.choice(alphabet) for _ in range(100_000))
    diff = diff_texts(old, new, most_lines=500)
    assert diff.cut
    assert sum(len(hunk.lines) for hunk in diff.hunks) <= 500
    assert diff.words.endswith("not all of it is shown")


def test_a_huge_line_is_shown_in_part() -> None:
    diff = diff_texts("a" * 50_000, "b" * 50_000)
    assert all(len(line.text) <= 2_001 for line in diff.hunks[0].lines)


def version(*parts: dict[str, str], hash_: str = "1") -> ContentVersion:
    return ContentVersion(1, 1.0, "a://1", hash_, list(parts), 1)


def test_versions_are_compared_part_by_part_and_binary_content_is_described() -> None:
    old = version({"uri": "a://1", "text": "x"}, {"uri": "a://1/b", "blob": "AAAA", "mimeType": "image/png"})
    new = version({"uri": "a://1", "text": "y"}, {"uri": "a://1/b", "blob": "AAAB", "mimeType": "image/png"})
    diff = change_shown(old, new)
    assert (diff.added, diff.removed) == (2, 2)
    assert "image/png, 3 bytes" in content_text(new.contents)


def test_content_that_was_too_large_is_compared_by_its_beginning() -> None:
    large = ContentVersion(1, 1.0, "a://1", "1", cut("x" * 100, 100), 100)
    diff = change_shown(version({"uri": "a://1", "text": "y"}), large)
    assert diff.note is not None
    assert "too large" in diff.note
    assert large.cut
    assert large.text == "x" * 100


def test_a_difference_that_lines_do_not_show_is_said() -> None:
    assert diff_texts("a\n", "a").note is not None


PATCH = """\
Today
http://127.0.0.1/today: lines added: 2, removed: 1
--- webfetch://packet/a (2026-11-15)
+++ webfetch://packet/b (2026-11-15)
@@ -3,3 +3,3 @@ Today
 # Today

-Buns are warm.
+Buns are cold.
@@ -40,1 +40,2 @@
 The end.
+Or not.
"""


def patch_version(text: str, kind: str = "text/x-diff") -> ContentVersion:
    contents = [{"uri": "a://1", "mimeType": kind, "text": text}]
    return ContentVersion(1, 0.0, "a://1", str(hash(text)), contents, len(text))


def test_it_has_the_lines_and_numbers_of_what_changed() -> None:
    diff = change_shown(patch_version("Nothing changed."), patch_version(PATCH))
    assert [[(line.sign, line.old, line.new, line.text) for line in hunk.lines] for hunk in diff.hunks] == [
        [
            (" ", 3, 3, "# Today"),
            (" ", 4, 4, ""),
            ("-", 5, None, "Buns are warm."),
            ("+", None, 5, "Buns are cold."),
        ],
        [(" ", 40, 40, "The end."), ("+", None, 41, "Or not.")],
    ]
    assert diff.words == "2 lines added, 1 removed"
    assert diff.note == "As the server describes it."


def test_what_is_no_patch_or_does_not_say_that_it_is_one_is_compared() -> None:
    for old, new in [
        (patch_version("Nothing changed."), patch_version("Something did.")),
        (patch_version("x", "text/plain"), patch_version(PATCH, "text/plain")),
        (patch_version("x"), ContentVersion(1, 0.0, "a://1", "h", {"cut": True, "size": 9, "head": PATCH}, 9)),
    ]:
        assert change_shown(old, new).hunks[0].lines[0].text in ("Nothing changed.", "x")


def test_a_patch_that_lies_about_its_lines_is_shown_as_far_as_it_can_be() -> None:
    lying = "@@ -1,999 +1,999 @@\n+a\n\\ No newline at end of file\n@@ nonsense @@\n"
    assert change_shown(patch_version("x"), patch_version(lying)).words == "1 line added"
    assert change_shown(patch_version("x"), patch_version("@@ -1 +1 @@\n same\n")).words == "2 lines added, 1 removed"

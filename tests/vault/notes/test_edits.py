"""Changes to the text of a note."""

import tracemalloc

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidings.vault.notes.edits import (
    Edit,
    EditRefused,
    ReplaceBlock,
    ReplaceLines,
    ReplaceSection,
    ReplaceText,
    SetProperty,
    apply_edits,
    diff,
)
from tidings.vault.notes.sections import append, block, prepend, section

NOTE = """\
---
# A comment
title:   "Plan"   # kept
tags: [a, b]
---

# Project

Intro text.

## Tasks

- [ ] one
- [ ] two

### Later

- [ ] three

## Log

```md
## Tasks
not a heading
```

# Other

## Tasks

- [ ] elsewhere ^here
"""


@pytest.mark.parametrize(
    "edit",
    [
        ReplaceText("a", "b" * 2_000_000, all=True),
        ReplaceText("\n", "x" * 2_000_000, all=True),
        ReplaceSection("H", "x" * 10_000_001),
        SetProperty("p", "x" * 10_000_001),
    ],
)
def test_a_text_that_would_be_too_large_is_refused_before_it_is_made(edit: Edit) -> None:
    """Three thousand places and two million characters would take six gigabytes."""
    text = "# H\n" + "a\n" * 3_000
    tracemalloc.start()
    try:
        with pytest.raises(EditRefused, match=r"are allowed|longer than"):
            apply_edits(text, [edit])
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_a_text_that_occurs_too_often_is_not_replaced() -> None:
    with pytest.raises(EditRefused, match="more than 100,000 times"):
        apply_edits("a" * 5_000_000, [ReplaceText("a", "", all=True)])


def test_a_text_that_is_too_large_already_can_be_made_smaller() -> None:
    assert apply_edits("a" * 10_000_005 + "b", [ReplaceText("b", "")]) == "a" * 10_000_005


def test_a_text_is_replaced_where_it_stands() -> None:
    assert apply_edits(NOTE, [ReplaceText("Intro text", "New")]) == NOTE.replace("Intro text", "New")
    assert apply_edits("a b a", [ReplaceText("a", "c", all=True)]) == "c b c"


def test_a_text_is_found_whatever_the_line_endings() -> None:
    text = "one\r\ntwo\r\nthree\r\n"
    assert apply_edits(text, [ReplaceText("one\ntwo", "1\n2\n2")]) == "1\r\n2\r\n2\r\nthree\r\n"
    assert apply_edits("one\ntwo\n", [ReplaceText("one\r\ntwo", "1\r\n2")]) == "1\n2\n"
    with pytest.raises(EditRefused, match="does not occur"):
        apply_edits("a\r\nb", [ReplaceText("a\n\nb", "x")])


def test_a_text_that_is_not_there_or_there_often_is_refused() -> None:
    with pytest.raises(EditRefused, match=r"occurs 3 times \(lines 1, 2, 4\).*all=true"):
        apply_edits("a x\nx\n\nx", [ReplaceText("x", "y")])
    with pytest.raises(EditRefused, match=r"does not occur. The nearest is line 2: 'The quick fox'"):
        apply_edits("x\nThe quick fox\n", [ReplaceText("The  quick fox", "y")])
    with pytest.raises(EditRefused, match="Read the note again"):
        apply_edits("x\n", [ReplaceText("something else", "y")])
    with pytest.raises(EditRefused, match="is empty"):
        apply_edits("x\n", [ReplaceText("", "y")])
    with pytest.raises(EditRefused, match=r"and 38 more"):
        apply_edits("x\n" * 50, [ReplaceText("x", "y")])


def test_a_section_is_replaced_with_its_blank_lines_kept() -> None:
    changed = apply_edits(NOTE, [ReplaceSection("Project#Tasks", "- [x] done")])
    assert changed == NOTE.replace("- [ ] one\n- [ ] two\n\n### Later\n\n- [ ] three", "- [x] done")


@pytest.mark.parametrize(
    "content", ["new", "new\n", "\n\nnew\n\n", "### Later\n\nnew", "### Later\nnew\n", "### Later ###\n\n\nnew"]
)
def test_a_section_is_the_same_however_the_content_is_wrapped(content: str) -> None:
    """Blank lines around it, or the heading that one read with it, are not doubled."""
    assert apply_edits(NOTE, [ReplaceSection("Later", content)]) == NOTE.replace("- [ ] three", "new")


def test_replacing_a_section_twice_is_replacing_it_once() -> None:
    once = apply_edits(NOTE, [ReplaceSection("Log", "entry")])
    assert apply_edits(once, [ReplaceSection("Log", "entry")]) == once
    assert section(once, "Log").text == "## Log\n\nentry\n\n"


def test_a_section_is_added_to() -> None:
    assert apply_edits(NOTE, [ReplaceSection("Later", "- [ ] four", "append")]) == NOTE.replace(
        "- [ ] three", "- [ ] three\n- [ ] four"
    )
    assert apply_edits(NOTE, [ReplaceSection("Later", "- [ ] zero\n", "prepend")]) == NOTE.replace(
        "- [ ] three", "- [ ] zero\n- [ ] three"
    )
    assert apply_edits("# A\ntext", [ReplaceSection("A", "\nmore\n", "append")]) == "# A\ntext\n\nmore"
    assert apply_edits("# A\ntext\n", [ReplaceSection("A", "more\n\n", "prepend")]) == "# A\nmore\n\ntext\n"
    assert apply_edits("# A\ntext\n", [ReplaceSection("A", "", "append")]) == "# A\ntext\n"
    assert apply_edits("# A\ntext\n", [ReplaceSection("A", "\n", "prepend")]) == "# A\ntext\n"


def test_headings_are_found_as_people_write_them() -> None:
    for heading in ["Log", "log", "## Log", "Project#Log", "project # log", " #Log", "LOG!"]:
        assert section(NOTE, heading).start_line == 20, heading
    assert section("# C# notes\nx\n", "C# notes").text == "# C# notes\nx\n"
    assert section("# Über: uns\n", "über uns").start_line == 1
    assert section("Title\n=====\ntext\n\nSub\n---\nmore\n", "Sub").text == "Sub\n---\nmore\n"
    assert apply_edits("Title\n=====\ntext\n", [ReplaceSection("Title", "new")]) == "Title\n=====\nnew\n"


def test_a_heading_in_code_is_none() -> None:
    with pytest.raises(EditRefused, match=r"2 headings 'Tasks' \(lines 11, 29\).*'Other#Tasks'"):
        section(NOTE, "Tasks")
    assert section(NOTE, "Other#Tasks").text == "## Tasks\n\n- [ ] elsewhere ^here\n"
    with pytest.raises(EditRefused, match=r"2 headings 'A' \(lines 1, 2\)\. Name its lines"):
        section("# A\n# A\n", "A")


def test_a_heading_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(EditRefused, match=r"no heading 'Taks'\. Did you mean 'Tasks'\?"):
        section(NOTE, "Taks")
    with pytest.raises(EditRefused, match=r"There are: 'Project', 'Tasks', 'Later', 'Log', 'Other'"):
        section(NOTE, "Zzz")
    with pytest.raises(EditRefused, match="no headings"):
        section("text", "A")
    with pytest.raises(EditRefused, match="no heading '### Log'"):
        section(NOTE, "### Log")
    with pytest.raises(EditRefused, match="no heading '#'"):
        section(NOTE, "#")


@pytest.mark.parametrize(
    ("text", "heading", "content", "after"),
    [
        ("# A", "A", "x", "# A\nx"),
        ("# A\n", "A", "x", "# A\nx\n"),
        ("# A\n\n", "A", "x", "# A\n\nx\n"),
        ("# A\n  ", "A", "x", "# A\n  \nx"),
        ("# A\n# B\n", "A", "x", "# A\nx\n# B\n"),
        ("# A\n\n# B\n", "A", "x", "# A\nx\n\n# B\n"),
        ("# A\n\n# B\n\ntext\n", "A", "x", "# A\n\nx\n\n# B\n\ntext\n"),
        ("# B\n\ntext\n\n# A", "A", "x", "# B\n\ntext\n\n# A\n\nx"),
        ("# A\n\ntext\n\n# B\n", "A", "", "# A\n\n# B\n"),
        ("# A\n\ntext", "A", "", "# A"),
        ("# A\r\n\r\ntext", "A", "", "# A"),
        ("# A\ntext\n", "A", "\n", "# A\n"),
        ("# A\n", "A", "", "# A\n"),
        ("# A\r\nx\r\n", "A", "1\n2", "# A\r\n1\r\n2\r\n"),
        ("# A\nx  \n\n# B", "A", "y", "# A\ny\n\n# B"),
    ],
)
def test_an_odd_section_is_replaced_too(text: str, heading: str, content: str, after: str) -> None:
    assert apply_edits(text, [ReplaceSection(heading, content)]) == after


def test_spaces_at_the_end_of_a_line_stay_when_a_section_is_added_to() -> None:
    assert apply_edits("# A\nx  \n\n# B", [ReplaceSection("A", "y", "append")]) == "# A\nx  \ny\n\n# B"


@pytest.mark.parametrize(
    ("text", "heading", "after"),
    [
        ("", "New", "## New\nx\n"),
        ("text", "New", "text\n\n## New\nx"),
        ("text\n", "New", "text\n\n## New\nx\n"),
        ("# T\n\ntext\n", "New", "# T\n\ntext\n\n## New\n\nx\n"),
        ("### T\ntext\n", "New", "### T\ntext\n\n### New\nx\n"),
        ("# T\n\n### S\n\ntext\n", "New", "# T\n\n### S\n\ntext\n\n### New\n\nx\n"),
        ("text\r\n", "#### New", "text\r\n\r\n#### New\r\nx\r\n"),
        ("# A\na\n\n# B\nb\n", "A#New", "# A\na\n\n## New\nx\n\n# B\nb\n"),
        ("# A\n# B\n", "A#New", "# A\n## New\nx\n# B\n"),
        ("# A\n\ny\n", "A", "# A\n\ny\nx\n"),
    ],
)
def test_a_heading_is_created_on_request(text: str, heading: str, after: str) -> None:
    assert apply_edits(text, [ReplaceSection(heading, "x", "append", create=True)]) == after


def test_a_section_that_cannot_be_created_is_refused() -> None:
    with pytest.raises(EditRefused, match="no heading 'Missing'"):
        apply_edits("# A\n", [ReplaceSection("Missing#New", "x", create=True)])
    with pytest.raises(EditRefused, match="cannot be a heading"):
        apply_edits("# A\n", [ReplaceSection("a\nb", "x", create=True)])


@pytest.mark.parametrize(
    ("text", "id", "content", "after"),
    [
        ("para one\ntwo ^id\n\nx", "id", "new", "new ^id\n\nx"),
        ("para ^id\n", "^ID", "new ^id\n", "new ^id\n"),
        ("- a\n- b ^id\n- c\n", "#^id", "new", "- a\n- new ^id\n- c\n"),
        ("- a\n- [x] b ^id\n", "id", "- [ ] new", "- a\n- [ ] new ^id\n"),
        ("- a\n- [x] b ^id\n", "id", "new", "- a\n- [x] new ^id\n"),
        ("> quote ^id\n", "id", "new", "> new ^id\n"),
        ("- a\n- b\n\n^id\n", "id", "new", "new\n\n^id\n"),
        ("a\r\nb ^id\r\n", "id", "1\n2", "1\r\n2 ^id\r\n"),
        ("^id\n", "id", "new", "new ^id\n"),
    ],
)
def test_a_block_is_replaced_and_keeps_its_id(text: str, id: str, content: str, after: str) -> None:  # noqa: A002
    assert apply_edits(text, [ReplaceBlock(id, content)]) == after
    assert block(after, id).start_line >= 1


def test_a_block_is_read_without_its_id() -> None:
    part = block(NOTE, "here")
    assert (part.text, part.start_line, part.end_line) == ("- [ ] elsewhere", 31, 31)


def test_a_block_that_is_not_clear_is_refused() -> None:
    with pytest.raises(EditRefused, match=r"no block 'her'\. Did you mean '\^here'\?"):
        block(NOTE, "her")
    with pytest.raises(EditRefused, match="has none"):
        block("text", "her")
    with pytest.raises(EditRefused, match=r"2 blocks 'a' \(lines 1, 3\)"):
        block("x ^a\n\ny ^a\n", "a")
    with pytest.raises(EditRefused, match="cannot be empty"):
        apply_edits(NOTE, [ReplaceBlock("here", " ^here")])


def test_properties_are_set_and_removed_and_the_rest_stays() -> None:
    changed = apply_edits(NOTE, [SetProperty("status", "open"), SetProperty("tags", None)])
    assert "tags:" not in changed
    assert "status: open\n" in changed
    assert '# A comment\ntitle:   "Plan"   # kept\n' in changed
    assert changed.endswith(NOTE[NOTE.index("# Project") :])
    assert apply_edits(NOTE, [SetProperty("missing", None)]) == NOTE
    with pytest.raises(EditRefused):
        apply_edits("---\na: [\n---\n", [SetProperty("b", 1)])


def test_line_numbers_count_the_lines_as_they_were_read() -> None:
    text = "1\n2\n3\n4\n5\n"
    edits: list[Edit] = [
        ReplaceText("2", "two\nzwei"),
        ReplaceLines(4, 4, "four"),
        ReplaceLines(1, 1, "zero\none"),
        ReplaceLines(3, 3, "three\n"),
        ReplaceLines(5, 5, ""),
    ]
    assert apply_edits(text, edits) == "zero\none\ntwo\nzwei\nthree\nfour\n"


@pytest.mark.parametrize(
    "edits",
    [
        [ReplaceLines(2, 3, "x"), ReplaceLines(3, 4, "y")],
        [ReplaceLines(3, 3, "y"), ReplaceLines(2, 3, "x")],
        [ReplaceText("3", "x"), ReplaceLines(3, 3, "y")],
        [ReplaceText("2\n3", "x"), ReplaceLines(3, 3, "y")],
    ],
)
def test_lines_that_were_changed_by_an_earlier_edit_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(EditRefused, match=r"Edit 2 of 2: An edit before this one has changed .* None of the edits"):
        apply_edits("1\n2\n3\n4\n", edits)


@pytest.mark.parametrize(
    ("text", "edit", "after"),
    [
        ("a\nb", ReplaceLines(2, 2, "c\n"), "a\nc"),
        ("a\nb", ReplaceLines(2, 2, ""), "a"),
        ("a\r\nb", ReplaceLines(2, 2, ""), "a"),
        ("a", ReplaceLines(1, 1, ""), ""),
        ("a\nb\n", ReplaceLines(1, 2, "\n"), "\n"),
        ("a\nb\n", ReplaceLines(2, 2, ""), "a\n"),
        ("a\r\nb\nc\r\n", ReplaceLines(2, 2, "x\ny"), "a\r\nx\r\ny\nc\r\n"),
    ],
)
def test_the_last_line_ends_as_before(text: str, edit: Edit, after: str) -> None:
    assert apply_edits(text, [edit]) == after


@pytest.mark.parametrize(
    "edit", [ReplaceLines(0, 1, ""), ReplaceLines(2, 1, ""), ReplaceLines(1, 4, ""), ReplaceLines(4, 4, "")]
)
def test_lines_that_are_not_there_are_refused(edit: Edit) -> None:
    with pytest.raises(EditRefused, match="had 3 lines"):
        apply_edits("1\n2\n3\n", [edit])


@pytest.mark.parametrize(
    ("text", "content", "after"),
    [
        ("", "x", "x\n"),
        ("", "x\r\ny", "x\r\ny\r\n"),
        ("", "x\n", "x\n"),
        ("", "", ""),
        ("a", "x\n", "a\nx"),
        ("a\n", "x", "a\nx\n"),
        ("a\n\n", "x\n\n", "a\n\nx\n\n"),
        ("a\r\n", "x\ny", "a\r\nx\r\ny\r\n"),
    ],
)
def test_lines_are_added_at_the_end(text: str, content: str, after: str) -> None:
    assert append(text, content) == after


@pytest.mark.parametrize(
    ("text", "content", "after"),
    [
        ("", "x", "x\n"),
        ("a", "x\n", "x\na"),
        ("---\na: 1\n---\ntext\n", "x", "---\na: 1\n---\nx\ntext\n"),
        ("---\na: 1\n---\n\ntext\n", "x\n\n", "---\na: 1\n---\n\nx\n\ntext\n"),
        ("---\na: 1\n---\n", "x", "---\na: 1\n---\nx\n"),
        ("---\na: 1\n---", "x", "---\na: 1\n---\nx"),
        ("---\r\na: 1\r\n---\r\n", "x\ny", "---\r\na: 1\r\n---\r\nx\r\ny\r\n"),
    ],
)
def test_lines_are_added_after_the_properties(text: str, content: str, after: str) -> None:
    assert prepend(text, content) == after


def test_a_diff_shows_what_differs_and_is_never_long() -> None:
    before = "".join(f"line {number}\n" for number in range(100))
    assert diff(before, before, "a.md") == ""
    assert diff(before, before.replace("\n", "\r\n"), "a.md") == "Only the line endings of a.md differ."
    shown = diff(before, before.replace("line 50\n", "changed\n"), "a.md")
    assert shown.splitlines()[:4] == ["--- a.md", "+++ a.md", "@@ -48,7 +48,7 @@", " line 47"]
    assert "-line 50\n+changed" in shown
    assert "no line ending" in diff("a", "a\n", "a.md")
    assert diff("", "x\n" * 1000, "a.md").endswith("more lines")
    assert "too many to show" in diff("", "x\n" * 5000, "a.md")
    assert len(diff("a", "b" * 100_000, "a.md")) < 2000


LINES = st.lists(st.sampled_from(["# A", "## B", "text", "", "- item", "```", "> q", "\ttab ", "ü"]), max_size=12)
ENDINGS = st.sampled_from(["\n", "\r\n"])
CONTENT = st.text("ab# -\n", max_size=8)


@st.composite
def texts(draw: st.DrawFn) -> str:
    properties = draw(st.sampled_from(["", "---\nb:   'x' # c\nlist:\n    - 1\n---\n"]))
    mixed = "".join(line + draw(ENDINGS) for line in draw(LINES))
    return properties + mixed + draw(st.sampled_from(["", "end"]))


@given(texts(), st.integers(1, 15), st.integers(0, 4), CONTENT)
def test_lines_that_are_not_named_stay_byte_for_byte(text: str, first: int, more: int, content: str) -> None:
    parts = text.splitlines(keepends=True)
    assume(first + more <= len(parts) and content)
    after = apply_edits(text, [ReplaceLines(first, first + more, content)])
    assert after.startswith("".join(parts[: first - 1]))
    assert after.endswith("".join(parts[first + more :]))
    if ("\n" + content).endswith("\n\n"):  # A last line that is empty cannot be without an ending.
        return
    assert after.endswith("\n") == text.endswith("\n") or not after


@given(texts(), CONTENT, st.sampled_from(["append", "prepend", "replace"]), st.sampled_from(["A", "B"]))
def test_what_is_outside_of_a_section_stays_byte_for_byte(text: str, content: str, mode: str, heading: str) -> None:
    try:
        part = section(text, heading)
        after = apply_edits(text, [ReplaceSection(heading, content, mode)])  # type: ignore[arg-type]
    except EditRefused:
        return
    parts = text.splitlines(keepends=True)
    assert after.startswith("".join(parts[: part.start_line - 1]) + parts[part.start_line - 1].rstrip("\r\n"))
    assert after.endswith("".join(parts[part.end_line :]))
    assert after.endswith("\n") == text.endswith("\n")
    if mode != "replace":
        kept = iter(after.splitlines())
        assert all(line in kept for line in text.splitlines()), "a line was lost"


@given(texts(), CONTENT)
def test_adding_loses_nothing(text: str, content: str) -> None:
    assert append(text, content).startswith(text)
    after = prepend(text, content)
    kept = iter(after.splitlines())
    assert all(line in kept for line in text.splitlines())
    assert after.endswith("\n") == text.endswith("\n") or not text


@given(
    texts(),
    st.lists(st.sampled_from(["a", "b", "c d", "list"]), max_size=4),
    st.sampled_from([1, "x", True, None, ["y"]]),
)
def test_setting_and_removing_properties_leaves_the_text_alone(text: str, keys: list[str], value: object) -> None:
    body = text.rpartition("---\n")[2] if text.startswith("---") else text
    edits: list[Edit] = [SetProperty(key, value) for key in keys] + [SetProperty(key, None) for key in keys[:2]]
    assert apply_edits(text, edits).endswith(body)


KEPT = "keep"
PROPERTIES = ["---", "# a comment", 'title:   "Plan"   # kept', "list: [a,   b]", "nested:", "    - 1", "---"]


@st.composite
def notes_with_things_to_keep(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A note, and those of its lines that no edit names."""
    lines = [line + draw(ENDINGS) for line in PROPERTIES]
    kept = lines.copy()
    for name in ("One", "Two", "Three"):
        lines.append(f"# {name}" + draw(ENDINGS))
        for at in range(draw(st.integers(0, 3))):
            lines.append(f"{KEPT} {name} {at}  " + draw(ENDINGS))
            kept.append(lines[-1])
            lines += draw(st.sampled_from([[], ["\n"], ["\r\n"], ["- change me\r\n"]]))
        lines += ["\n", f"block {name} ^{name.lower()}" + draw(ENDINGS)]
    return "".join(lines), kept


EDITS = st.one_of(
    st.builds(
        SetProperty, st.sampled_from(["status", "tags", "new one"]), st.sampled_from(["x", 3, ["a", "b: c"], None])
    ),
    st.builds(SetProperty, st.sampled_from(["status", "tags"]), st.none()),
    st.builds(ReplaceBlock, st.sampled_from(["one", "two", "three"]), st.sampled_from(["new", "two\nlines"])),
    st.builds(ReplaceText, st.just("change me"), st.sampled_from(["changed", "a\nb", ""]), st.just(True)),
    st.builds(
        ReplaceSection,
        st.sampled_from(["One", "Two", "Three", "Four"]),
        st.sampled_from(["added", "\nadded\n\nmore\n", "- x", ""]),
        st.sampled_from(["append", "prepend"]),
        st.booleans(),
    ),
)


@given(notes_with_things_to_keep(), st.lists(EDITS, max_size=6))
def test_any_edits_keep_what_they_do_not_name_byte_for_byte(note: tuple[str, list[str]], edits: list[Edit]) -> None:
    text, kept = note
    after = text
    for edit in edits:
        try:
            after = apply_edits(after, [edit])
        except EditRefused:
            continue
    try:
        after_all = apply_edits(text, edits)
    except EditRefused:
        after_all = after
    for result in (after, after_all):
        found = iter(result.splitlines(keepends=True))
        missing = [line for line in kept if line not in found]
        assert missing == []


ODD = st.text(st.sampled_from("#-^>`[]=*: \t\r\n\u2028\0aB\ufeff\U0001f600"), max_size=40)
ODD_EDITS = st.one_of(
    st.builds(ReplaceText, ODD, ODD, st.booleans()),
    st.builds(
        ReplaceSection, ODD | st.just("a"), ODD, st.sampled_from(["append", "prepend", "replace"]), st.booleans()
    ),
    st.builds(ReplaceBlock, ODD | st.just("a"), ODD),
    st.builds(SetProperty, ODD, ODD),
    st.builds(SetProperty, ODD, st.none()),
    st.builds(ReplaceLines, st.integers(-1, 5), st.integers(-1, 5), ODD),
)


@given(
    st.builds(str.__add__, st.sampled_from(["", "---\na: 1\n---\n", "# a\n", "x ^a\n"]), ODD),
    st.lists(ODD_EDITS, max_size=4),
)
def test_no_text_and_no_edit_is_too_odd(text: str, edits: list[Edit]) -> None:
    try:
        after = apply_edits(text, edits)
    except EditRefused:
        return
    assert isinstance(diff(text, after, "a.md"), str)

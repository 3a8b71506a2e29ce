"""What searches find in real notes, and how it is shown."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.vault.searching import entry, found, indexed
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.search.query import BadQuery, Word
from tidings.vault.search.search import SearchHit, SearchPage, search
from tidings.vault.search.text import LineMatch

NOTES = {
    "Apples.md": """---
status: Done
rating: 4
due: 2024-05-01
tags: [fruit/red]
aliases: [Pomme]
empty:
---
# Pie
An Apple pie with C++ and foo-bar. Crème brûlée!
- [ ] buy apples #shop
- [x] bake at 180.5

## Later
apple juice ^juice
""",
    "Work/Plan A.md": """---
status: in progress
rating: 10
due: 2024-06-15
people: [Ann, Bob]
---
An apple, and a pie elsewhere. See [[Apples]] and ![[photo.png]].
```
#nocode #fruit
```
Mail me@here.org or see a.b, HappyCat.
""",
    "Work/Sub/Japan.md": "東京は日本の首都です。\nTokyo apples 京都\nภาษาไทยง่าย\n",
    "Work/Board.canvas": "canvas text with pears",
    "Work/Notes.base": "views: pears",
    "photo.png": "",
    "Emoji 🤔.md": "Ça va? naïve Straße Ünder αβγ ΑΒΓς Привет\nparty 🎉 time\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    index = indexed(tmp_path_factory.mktemp("vault"), NOTES)
    yield index
    index.close()


@pytest.fixture
def queries(index: Index) -> Queries:
    return index.queries


APPLES, PLAN, JAPAN, BOARD, BASE, PHOTO, EMOJI = NOTES


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        # Words and phrases
        ("apple", {APPLES, PLAN, JAPAN}),
        ("APPLE pie", {APPLES, PLAN}),
        ('"apple pie"', {APPLES}),
        ('"an apple, and"', {PLAN}),
        ('"apple and"', set()),
        ('"apple\npie"', set()),
        ('"appl"', {APPLES, PLAN, JAPAN}),
        ("pple", {APPLES, PLAN, JAPAN}),
        ("pp", {APPLES, PLAN, JAPAN}),
        ('"appl "', set()),
        ('" pple"', set()),
        ('"pie "', {APPLES, PLAN}),
        ("[due:>=3]", set()),
        ("pple ie", {APPLES, PLAN}),
        ("creme", set()),
        ("CRÈME brûlÉE", {APPLES}),
        ("cre\u0300me", {APPLES}),
        ("ça naïve ünde", {EMOJI}),
        ("traße", {EMOJI}),
        ("αβγς", {EMOJI}),
        ("αβγσ", set()),
        ("привет", {EMOJI}),
        ("plan", {PLAN}),
        ("content:plan", set()),
        ("photo", {PLAN}),
        ('""', set(NOTES) - {BASE, PHOTO}),
        # Combined
        ("juice OR tokyo", {APPLES, JAPAN}),
        ("apple -pie", {JAPAN}),
        ("apple -(pie juice)", {PLAN, JAPAN}),
        ("-apple", {BOARD, EMOJI}),
        ("apple -#shop", {PLAN, JAPAN}),
        ("#shop OR 🎉", {APPLES, EMOJI}),
        ("(C++ OR tokyo) apple", {APPLES, JAPAN}),
        ("-C++ apple", {PLAN, JAPAN}),
        # Characters that are no letters
        ("C++", {APPLES}),
        ("c+", {APPLES}),
        ("c#", set()),
        ("foo-bar", {APPLES}),
        ("foo-b", {APPLES}),
        ("oo-bar", {APPLES}),
        ("oo-b", {APPLES}),
        ("+ and", {APPLES}),
        ("foo.bar", set()),
        ("me@here.org", {PLAN}),
        ("a.b", {PLAN}),
        ("brûlée!", {APPLES}),
        ('"and foo-bar"', {APPLES}),
        ('"nd foo-ba"', {APPLES}),
        ("🎉", {EMOJI}),
        ("party🎉", set()),
        ("++", {APPLES}),
        ("[[Apples]]", {PLAN}),
        ("[[", {PLAN}),
        ("[[app", {PLAN}),
        ("ples]]", {PLAN}),
        # Words without spaces
        ("日本", {JAPAN}),
        ("首都です", {JAPAN}),
        ("京", {JAPAN}),
        ("大阪", set()),
        ('"東京は日本"', {JAPAN}),
        ("ไทย", {JAPAN}),
        ("ง่าย", {JAPAN}),
        ("日本X", set()),
        # Tags
        ("tag:#fruit", {APPLES}),
        ("tag:FRUIT/red", {APPLES}),
        ("tag:#fru", set()),
        ("tag:#nocode", set()),
        ("#nocode", {PLAN}),
        ("#fru", {PLAN}),
        ("tag:(#shop #fruit)", {APPLES}),
        # Names
        ("file:app", {APPLES}),
        ("file:pp", {APPLES}),
        ("file:.png", {PHOTO}),
        ("file:work", set()),
        ("path:work/", {PLAN, JAPAN, BOARD, BASE}),
        ('path:"plan a"', {PLAN}),
        ("path:(sub OR board)", {JAPAN, BOARD}),
        ("path:(work -sub)", {PLAN, BOARD, BASE}),
        ("file:/^[a-j].*s\\.md$/", {APPLES}),
        ("match-case:file:app", set()),
        ("match-case:file:App", {APPLES}),
        ("file:/a(/", None),
        # Capitals
        ("happycat", {PLAN}),
        ("match-case:happycat", set()),
        ("match-case:HappyC", {PLAN}),
        ("match-case:(HappyCat ignore-case:APPLE)", {PLAN}),
        ("match-case:crème", set()),
        ("match-case:content:apple", {APPLES, PLAN, JAPAN}),
        ("match-case:/happy/", set()),
        ("-match-case:apple", {BOARD, EMOJI}),
        # Places
        ("line:(apple pie)", {APPLES, PLAN}),
        ("line:(apple juice)", {APPLES}),
        ("line:(tokyo 京都)", {JAPAN}),
        ("line:(tokyo 東京)", set()),
        ("line:(apples #shop)", {APPLES}),
        ("line:(pie #shop)", set()),
        ("line:(apple -pie)", {APPLES, JAPAN}),
        ("line:(/^tokyo/ OR juice)", {APPLES, JAPAN}),
        ('line:"apple pie"', {APPLES}),
        ("line:match-case:An", {APPLES, PLAN}),
        ("line:#shop", {APPLES}),
        ("-line:(apple pie)", {JAPAN, BOARD, EMOJI}),
        ("block:(nocode fruit)", {PLAN}),
        ("block:(nocode mail)", set()),
        ("block:(crème shop)", set()),
        ("section:(crème shop)", {APPLES}),
        ("section:(crème juice)", set()),
        ("section:(status crème)", set()),
        # Tasks
        ('task:""', {APPLES}),
        ("task:buy", {APPLES}),
        ("task:juice", set()),
        ("task:(buy #shop)", {APPLES}),
        ("task:(bake #shop)", set()),
        ("task-todo:bake", set()),
        ("task-done:bake", {APPLES}),
        ("task-done:(bake -buy)", {APPLES}),
        ("task-todo:(match-case:Buy OR /^bake/)", set()),
        ("-task:buy -apple", {BOARD, EMOJI}),
        # Properties
        ("[status]", {APPLES, PLAN}),
        ("[Status:done]", {APPLES}),
        ("[(people OR rating)]", {APPLES, PLAN}),
        ("[(people OR due):ann]", {PLAN}),
        ("[/^peo/:bob]", {PLAN}),
        ("[/^(status|rating)$/:-done]", {PLAN}),
        ("[(-status -rating -due -people):pomme]", {APPLES}),
        ("[stat]", set()),
        ("[status:prog]", {PLAN}),
        ("[status:(done OR progress)]", {APPLES, PLAN}),
        ("[status:-done]", {PLAN}),
        ("-[status:done] [status]", {PLAN}),
        ("[status:match-case:done]", set()),
        ('[status:"in progress"]', {PLAN}),
        ('[status:"in"]', set()),
        ("[status:/^in/]", {PLAN}),
        ("[people:(ann bob)]", {PLAN}),
        ("[rating:4]", {APPLES}),
        ("[rating:1]", set()),
        ("[rating:>4]", {PLAN}),
        ("[rating:>=4 <5]", {APPLES}),
        ("[due:<2024-06]", {APPLES}),
        ("[due:<=2024-06]", {APPLES, PLAN}),
        ("[due:>2023]", {APPLES, PLAN}),
        ("[due:2024-05]", {APPLES}),
        ("[status:>e]", {PLAN}),
        ("[empty:null]", {APPLES}),
        ("[status:null]", set()),
        ("[empty:x]", set()),
        # What the index knows
        ("modified:2024-05-01", {APPLES}),
        ("modified:<2024-05-02", {APPLES}),
        ("modified:>2024-05-05", {EMOJI}),
        ("size:>210", {APPLES}),
        ("in:work", {PLAN, JAPAN, BOARD}),
        ("in:Work/Sub", {JAPAN}),
        ("in:Wor", set()),
        ("kind:canvas", {BOARD}),
        ("kind:note -apple", {EMOJI}),
        ("pears", {BOARD}),
        ("kind:attachment", {PHOTO}),
        ("file:.png photo", set()),
        ("file:.png -photo", {PHOTO}),
        ("-path:work", {APPLES, EMOJI, PHOTO}),
        ("has:task", {APPLES}),
        ("has:todo has:done", {APPLES}),
        ("has:link", {PLAN}),
        ("has:embed", {PLAN}),
        ("has:attachment", {PLAN}),
        ("has:tag", {APPLES}),
        ("has:property", {APPLES, PLAN}),
        ("has:alias", {APPLES}),
        ("has:heading", {APPLES}),
        ("has:block", {APPLES}),
        ("has:problem", set()),
        # Regular expressions
        ("/app[l]e/", {APPLES, PLAN, JAPAN}),
        ("/^tokyo/", {JAPAN}),
        ("/ apple pie /", {APPLES}),
        (r"/\bpie\b/", {APPLES, PLAN}),
        (r"/180\.\d/", {APPLES}),
        ("/pie.*later/", set()),
        ("/pie.*later/s", {APPLES}),
        ("/juice|tokyo/", {APPLES, JAPAN}),
        ("apple -/pie/", {JAPAN}),
        ("content:/plan/", set()),
        ("/100%_/", set()),
    ],
)
def test_a_query_finds(queries: Queries, query: str, paths: set[str] | None) -> None:
    if paths is None:
        with pytest.raises(BadQuery):
            search(queries, query)
        return
    assert found(queries, query) == paths


def test_a_hit_shows_the_lines_that_match_with_the_most_terms_first_chosen(tmp_path: Path) -> None:
    text = "one\nnothing\ntwo\none two\r\none\n"
    index = indexed(tmp_path, {"A.md": text})
    result = search(index.queries, "one two -three", matches=2)
    (hit,) = result.hits
    assert hit.matches == (LineMatch(1, "one"), LineMatch(4, "one two"))
    assert hit.lines == 4
    index.close()


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("pie", [9, 10]),
        ("line:(apple pie)", [10]),
        ("tag:#fruit", [5]),
        ("#shop", [11]),
        ("task:b", [11, 12]),
        ("task-done:bake", [12]),
        ("section:(crème shop)", [10, 11]),
        ('block:(pie -"")', []),
        ("line:#shop", [11]),
        ('task-todo:""', [11]),
        ("/^apple/", [15]),
        ("match-case:Apple", [10]),
        ("content:juice OR file:apples", [15]),
        ("[status:done]", []),
        ("apples -file:x", [11]),
    ],
)
def test_lines_are_shown_for_each_kind_of_term(queries: Queries, query: str, lines: list[int]) -> None:
    hits = {hit.path: hit for hit in search(queries, query).hits}
    assert [match.line for match in hits[APPLES].matches if APPLES in hits] == lines if lines else True
    if lines:
        assert hits[APPLES].lines == len(lines)


def test_a_long_line_is_shortened_around_the_match(tmp_path: Path) -> None:
    words = " ".join(f"word{n}" for n in range(1000))
    index = indexed(tmp_path, {"A.md": words.replace("word500", "needle"), "B.md": "x" * 500 + "-needle-" + "y" * 500})
    first, second = (hit.matches[0].text for hit in search(index.queries, "needle", context=60, sort="path").hits)
    assert first.startswith("…word49")
    assert first.endswith("…")
    assert "needle" in first
    assert len(first) <= 62
    assert second.startswith("…x")
    assert "-needle-yy" in second
    assert search(index.queries, "word0", context=20).hits[0].matches[0].text == "word0 word1 word2…"
    index.close()


def test_pages_follow_each_other_in_an_order_that_paths_complete(tmp_path: Path) -> None:
    index = indexed(tmp_path, {f"{n:02}.md": "same text" for n in range(25)})
    queries = index.queries
    expected = [f"{n:02}.md" for n in range(25)]
    for query in ("same", "same -/nothing/"):
        pages = [search(queries, query, limit=10, offset=offset) for offset in (0, 10, 20, 30)]
        assert [hit.path for page in pages for hit in page.hits] == expected
        assert [page.total for page in pages] == [25] * 4
        newest = search(queries, query, limit=3, sort="modified")
        assert [hit.path for hit in newest.hits] == ["24.md", "23.md", "22.md"]
        assert search(queries, query, limit=0) == SearchPage(25, True, (), None)
    index.close()


def test_a_word_in_the_title_is_worth_more(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"A.md": "plan " * 3 + "x " * 50, "Plan.md": "x " * 50, "Z.md": "x " * 50 + "plan"})
    hits = search(index.queries, "plan").hits
    assert [hit.path for hit in hits] == ["Plan.md", "A.md", "Z.md"]
    assert hits[0].score > hits[1].score > hits[2].score > 0
    hits = search(index.queries, "plan OR #none").hits
    assert [hit.path for hit in hits] == ["Plan.md", "A.md", "Z.md"]
    index.close()


def test_what_the_app_hides_is_not_found_nor_counted(queries: Queries) -> None:
    for query in ("apple", "/apple/", "-nothing kind:note apple"):
        result = search(queries, query, hidden=lambda path: path.startswith("Work/"))
        assert [hit.path for hit in result.hits] == [APPLES]
        assert result.total == 1


def test_equal_indexes_give_equal_results_however_they_came_about(tmp_path: Path) -> None:
    index = indexed(tmp_path, NOTES)
    index.apply([entry(APPLES, "something else")])
    index.apply([entry(PLAN, "pie " * 100)], gone=[JAPAN])
    index.apply([entry(path, NOTES[path]) for path in (JAPAN, PLAN, APPLES)])
    again = indexed(tmp_path, NOTES)
    for query in ("apple", "pie OR apple", "apple -pie", "/pie/"):
        assert search(index.queries, query) == search(again.queries, query)
    index.close()
    again.close()


def test_days_are_counted_back_from_now(queries: Queries) -> None:
    now = datetime(2024, 5, 7, 18, 0, tzinfo=UTC)
    assert {hit.path for hit in search(queries, "modified:1d", now=now).hits} == {EMOJI}
    assert {hit.path for hit in search(queries, "modified:yesterday kind:attachment", now=now).hits} == {PHOTO}


def test_both_ways_to_write_an_accent_are_found_in_one_note(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"a.md": "# One\nnai\u0308ve\n# Two\nna\u00efve\n# Three\nnai\u0308ve apple\n"})
    for query in ("section:(na\u00efve apple)", "block:(na\u00efve apple)", "line:(na\u00efve apple)"):
        assert found(index.queries, query) == {"a.md"}
    assert found(index.queries, "section:(na\u00efve pear)") == set()
    index.close()


def test_case_matters_for_a_sigma_within_a_word_too(tmp_path: Path) -> None:
    index = indexed(tmp_path, {"a.md": "ΣΊΣΥΦΟΣ\n", "b.md": "σίσυφος\n"})
    assert found(index.queries, "match-case:ΊΣ") == {"a.md"}
    assert found(index.queries, "match-case:ίσ") == {"b.md"}
    index.close()


def test_a_tree_can_be_searched_for(queries: Queries) -> None:
    result = search(queries, Word("juice"))
    assert result.hits == (
        SearchHit(APPLES, "Apples", result.hits[0].score, (LineMatch(15, "apple juice ^juice"),), 1),
    )

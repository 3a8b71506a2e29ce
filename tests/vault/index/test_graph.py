"""Where links lead, and who leads to whom: found when it is asked."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.vault.building import build
from tests.vault.searching import entry
from tidings.vault.files.paths import Vault
from tidings.vault.index.graph import LinkNames, ResolvedLink, backlinks, between, broken, orphans, outgoing, with_lines
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.notes import links
from tidings.vault.notes.model import key


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened = Index(Vault([tmp_path]), memory=True)
    yield opened
    opened.close()


def fill(index: Index, files: Mapping[str, str]) -> Queries:
    index.apply([entry(path, text) for path, text in files.items()])
    return index.queries


def shown(queries: Queries, found: list[ResolvedLink]) -> list[tuple[str, int, str]]:
    return [(link.source, link.line, link.text) for link in with_lines(queries, found)]


def test_links_of_a_note_tell_where_they_stand_and_lead(index: Index) -> None:
    queries = fill(
        index,
        {
            "a.md": "first\n  [[B#Part|shown]] and ![[p.png]]\r\n[x](Sub/b.md) [[nowhere]] [[#Head]]",
            "Sub/b.md": "",
            "p.png": "",
        },
    )
    found = list(with_lines(queries, outgoing(queries, "a.md")))
    assert [(link.target, link.leads_to, link.embed, link.line) for link in found] == [
        ("B", "Sub/b.md", False, 2),
        ("p.png", "p.png", True, 2),
        ("Sub/b.md", "Sub/b.md", False, 3),
        ("nowhere", None, False, 3),
        ("", "a.md", False, 3),
    ]
    first = found[0]
    assert (first.source, first.title, first.line, first.leads_to) == ("a.md", "a", 2, "Sub/b.md")
    assert (first.target, first.subpath, first.shown, first.kind) == ("B", "#Part", "shown", "wiki")
    assert (first.embed, first.text) == (False, "[[B#Part|shown]] and ![[p.png]]")
    assert [link.text for link in found[1:3]] == [
        "[[B#Part|shown]] and ![[p.png]]",
        "[x](Sub/b.md) [[nowhere]] [[#Head]]",
    ]
    assert list(outgoing(queries, "nothing.md")) == []


def test_backlinks_are_told_with_their_lines(index: Index) -> None:
    queries = fill(
        index,
        {
            "B/Target.md": "[[Target]] [[#Here]]",
            "z.md": "to [[target]]\nand again [[B/Target|it]]",
            "a.md": "[[Other]]\n\n[md](B/Target.md)",
            "c.md": "[[A/Target]] leads nowhere",
        },
    )
    assert shown(queries, backlinks(queries, "B/Target.md")) == [
        ("B/Target.md", 1, "[[Target]] [[#Here]]"),
        ("a.md", 3, "[md](B/Target.md)"),
        ("z.md", 1, "to [[target]]"),
        ("z.md", 2, "and again [[B/Target|it]]"),
    ]
    assert {link.leads_to for link in backlinks(queries, "B/Target.md")} == {"B/Target.md"}
    assert list(backlinks(queries, "nothing.md")) == []


def test_a_file_that_comes_or_goes_changes_where_links_lead(index: Index) -> None:
    queries = fill(index, {"A/a.md": "[[x]]", "B/x.md": ""})
    assert len(backlinks(queries, "B/x.md")) == 1
    fill(index, {"A/x.md": ""})
    assert (len(backlinks(queries, "B/x.md")), len(backlinks(queries, "A/x.md"))) == (0, 1)
    index.apply([], ["A/x.md", "B/x.md"])
    assert [link.target for link in broken(queries)] == ["x"]
    fill(index, {"C/X.md": ""})
    assert (list(broken(queries)), len(backlinks(queries, "C/X.md"))) == ([], 1)


def test_a_name_that_ends_in_md_twice_is_linked_to_in_both_ways(index: Index) -> None:
    queries = fill(index, {"x.md.md": "", "a.md": "[[x.md]] [[x.md.md]]"})
    assert len(backlinks(queries, "x.md.md")) == 2


def test_of_long_lines_only_what_is_around_a_link_is_shown(index: Index) -> None:
    queries = fill(index, {"a.md": "x" * 100_000 + " [[b]] " + "y" * 100_000, "b.md": ""})
    (link,) = with_lines(queries, backlinks(queries, "b.md"))
    assert "[[b]]" in link.text
    assert len(link.text) < 2000


def test_only_the_first_of_many_links_are_resolved_if_that_is_asked(index: Index) -> None:
    queries = fill(index, {"a.md": "".join(f"[[b{number}]] " for number in range(300)), "b7.md": ""})
    asked: list[str] = []
    queries.connection.set_trace_callback(asked.append)
    part = outgoing(queries, "a.md", 10)
    assert len(part) == 10
    assert [(link.target, link.leads_to) for link in part[6:8]] == [("b6", None), ("b7", "b7.md")]
    assert not any("body" in question or "b50" in question for question in asked)
    queries.connection.set_trace_callback(None)
    assert [link.target for link in outgoing(queries, "a.md")] == [f"b{number}" for number in range(300)]


def test_what_is_shown_of_a_line_ends_where_the_line_does(index: Index) -> None:
    queries = fill(index, {"a.md": "no\r\nyes [[b]] yes\r\nno\n[[b]]", "b.md": ""})
    assert shown(queries, backlinks(queries, "b.md")) == [("a.md", 2, "yes [[b]] yes"), ("a.md", 4, "[[b]]")]


def test_broken_links_are_listed_by_file(index: Index) -> None:
    queries = fill(
        index, {"b.md": "[[no]] [[a]]\n[[A/b]] [[./c]]", "a.md": "[[no]] [x](no.md) [[b]]", "C/c.md": "[[../no]]"}
    )
    assert [(link.source, link.line, link.target, link.leads_to) for link in broken(queries)] == [
        ("C/c.md", 1, "../no", None),
        ("a.md", 1, "no", None),
        ("a.md", 1, "no.md", None),
        ("b.md", 1, "no", None),
        ("b.md", 2, "A/b", None),
        ("b.md", 2, "./c", None),
    ]


def test_orphans_are_notes_without_links_in_either_direction(index: Index) -> None:
    files = {
        "a.md": "[[b]]",
        "b.md": "",
        "c.md": "[[nowhere]] [[c]] [[#x]]",
        "d.md": "![[p.png]]",
        "p.png": "",
        "q.png": "",
    }
    assert orphans(fill(index, files)) == ["c.md"]


def test_the_shortest_way_between_notes_goes_over_links_in_both_directions(index: Index) -> None:
    files = {
        "a.md": "[[b]] [[x]]",
        "b.md": "[[c]]",
        "c.md": "",
        "d.md": "[[c]]",
        "x.md": "[[y]]",
        "y.md": "[[d]]",
        "alone.md": "",
    }
    queries = fill(index, files)
    assert between(queries, "a.md", "d.md") == ["a.md", "b.md", "c.md", "d.md"]
    assert between(queries, "d.md", "a.md") == ["d.md", "c.md", "b.md", "a.md"]
    assert between(queries, "a.md", "a.md") == ["a.md"]
    assert between(queries, "a.md", "alone.md") is None


def test_no_more_is_looked_at_for_the_way_between_notes_than_lies_near_them(index: Index) -> None:
    files = {f"{number}.md": f"[[{number + 1}]]" for number in range(200)}
    queries = fill(index, files | {"end.md": "[[199]] [[1]]"})
    asked: list[str] = []
    queries.connection.set_trace_callback(asked.append)
    assert between(queries, "0.md", "end.md") == ["0.md", "1.md", "end.md"]
    queries.connection.set_trace_callback(None)
    assert not any("100.md" in question for question in asked)


def test_links_lead_only_to_files_of_their_own_vault(tmp_path: Path) -> None:
    for path, text in {
        "One/a.md": "[[b]] [[Sub/c]] [[d]]",
        "One/Sub/c.md": "",
        "Two/b.md": "[[c]] [[d]]",
        "Two/d.md": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    vault = Vault([tmp_path / "One", tmp_path / "Two"])
    index = Index(vault, memory=True)
    build(vault, index)
    queries = index.queries
    assert [link.leads_to for link in outgoing(queries, "One/a.md")] == [None, "One/Sub/c.md", None]
    assert LinkNames(queries, "Two").resolve("d", "Two/b.md") == "Two/d.md"
    assert shown(queries, backlinks(queries, "Two/d.md")) == [("Two/b.md", 1, "[[c]] [[d]]")]
    assert [(link.source, link.target) for link in broken(queries)] == [
        ("One/a.md", "b"),
        ("One/a.md", "d"),
        ("Two/b.md", "c"),
    ]
    assert orphans(queries) == []
    assert between(queries, "One/a.md", "Two/d.md") is None
    index.close()


def test_a_canvas_leads_to_what_it_shows_and_to_what_its_texts_link_to(tmp_path: Path) -> None:
    canvas = {
        "nodes": [
            {"id": "1", "type": "file", "file": "A/x.md"},
            {"id": "2", "type": "text", "text": "one\ntwo [[y]] three"},
            {"id": "3", "type": "file", "file": "x.md"},
        ]
    }
    for path, text in {"A/x.md": "", "y.md": "", "Board.canvas": json.dumps(canvas)}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    vault = Vault([tmp_path])
    index = Index(vault, memory=True)
    build(vault, index)
    assert [link.leads_to for link in outgoing(index.queries, "Board.canvas")] == ["A/x.md", "y.md", None]
    (link,) = with_lines(index.queries, backlinks(index.queries, "y.md"))
    assert (link.title, link.text) == ("Board", "two [[y]] three")
    (link,) = with_lines(index.queries, backlinks(index.queries, "A/x.md"))
    assert (link.text, link.kind) == ("A/x.md", "canvas")
    index.close()


PATHS = ["a.md", "A/a.md", "A/b.md", "B/a.md", "B/C/b.md", "p.png", "A/p.png", "a", "c.md.md"]
TARGETS = [
    "a",
    "A",
    "a.md",
    "A/a",
    "b",
    "C/b",
    "p.png",
    "p",
    "./a",
    "../a",
    "/a",
    "c",
    "c.md",
    "c.md.md",
    "none",
    "B/a.md",
]
FILES = st.dictionaries(st.sampled_from(PATHS), st.lists(st.sampled_from(TARGETS), max_size=5), max_size=7)


class Plain:
    """The names of files, looked for one by one."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def candidates(self, name: str, /) -> list[str]:
        return [path for path in self.paths if key(path.rpartition("/")[2]) in (name, f"{name}.md")]


def distance(steps: set[tuple[str, str]], start: str, end: str) -> int | None:
    """How many steps it takes, by trying all of them."""
    reached = {start}
    for count in range(len(PATHS)):
        if end in reached:
            return count
        reached |= {to for path, to in steps if path in reached}
    return None


@settings(max_examples=40)
@given(FILES)
def test_backlinks_broken_links_and_ways_are_what_resolving_every_link_gives(files: dict[str, list[str]]) -> None:
    check_links(files)


@pytest.mark.thorough
@settings(max_examples=500)
@given(FILES)
def test_links_of_many_vaults_are_what_resolving_every_link_gives(files: dict[str, list[str]]) -> None:
    check_links(files)


def check_links(files: dict[str, list[str]]) -> None:
    notes = {path: targets if path.endswith(".md") else [] for path, targets in files.items()}
    expected = [
        (source, target, links.resolve(target, source, Plain(list(notes)).candidates))
        for source, targets in sorted(notes.items())
        for target in targets
    ]
    with TemporaryDirectory() as folder:
        index = Index(Vault([Path(folder)]), memory=True)
        queries = fill(
            index, {path: "\n".join(f"[[{target}]]" for target in targets) for path, targets in notes.items()}
        )
        for path in notes:
            found = [(link.source, link.target, link.leads_to) for link in backlinks(queries, path)]
            assert found == [link for link in expected if link[2] == path]
            found = [(link.source, link.target, link.leads_to) for link in outgoing(queries, path)]
            assert found == [link for link in expected if link[0] == path]
        found = [(link.source, link.target, link.leads_to) for link in broken(queries)]
        assert found == [link for link in expected if link[2] is None]
        steps = {(source, to) for source, _, to in expected if to}
        steps |= {(to, source) for source, to in steps}
        for start, end in product(notes, repeat=2):
            way = between(queries, start, end)
            assert (len(way) - 1 if way else None) == distance(steps, start, end)
            assert way is None or steps.issuperset(pairwise(way))
        index.close()

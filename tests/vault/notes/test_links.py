"""Where a link leads, and how one is written."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.vault.notes import links
from tidings.vault.notes.links import SameName, Style, resolve, rewritten, shortest, without_md
from tidings.vault.notes.model import NoteLink, key


class Files:
    """A vault's files, by name."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def __call__(self, name: str, /) -> Sequence[str]:
        return [path for path in self.paths if key(without_md(path.rpartition("/")[2])) == name]


FILES = Files(
    *(
        "Note.md",
        "b/Note.md",
        "a/b/Note.md",
        "zzzz/Note.md",
        "a/Only.md",
        "a/deep/er/Two.md",
        "zz/Two.md",
        "z/y/Two.md",
    ),
    *(
        "i/foo.png",
        "foo.png.md",
        "Bar.md.md",
        "Bar.md",
        "x/Case.md",
        "x/case.md",
        "Café.md",
        "no extension",
        "c.canvas",
    ),
    *("x/Own.md", "y/Own.md", "longer/Own.md", "p.q.md"),
)

RESOLVED = [
    # A name, whatever its case and with or without `.md`.
    ("Only", "s.md", "a/Only.md"),
    ("only", "s.md", "a/Only.md"),
    ("Only.md", "s.md", "a/Only.md"),
    ("ONLY.MD", "s.md", "a/Only.md"),
    ("Cafe\u0301", "s.md", "Café.md"),
    ("p.q", "s.md", "p.q.md"),
    ("Nothing", "s.md", None),
    ("Only.txt", "s.md", None),
    # The same note.
    ("", "a/s.md", "a/s.md"),
    # A whole path wins, even over a file beside the note.
    ("Note", "s.md", "Note.md"),
    ("Note", "zzzz/s.md", "Note.md"),
    ("b/Note", "a/s.md", "b/Note.md"),
    ("a/b/Note", "s.md", "a/b/Note.md"),
    # The end of a path.
    ("deep/er/Two", "s.md", "a/deep/er/Two.md"),
    ("er/two", "s.md", "a/deep/er/Two.md"),
    ("r/Two", "s.md", None),
    ("a/Note", "s.md", None),
    # Near, then short.
    ("Own", "x/s.md", "x/Own.md"),
    ("Own", "longer/s.md", "longer/Own.md"),
    ("Own", "s.md", "x/Own.md"),
    ("Two", "a/s.md", "a/deep/er/Two.md"),
    ("Two", "q/s.md", "zz/Two.md"),
    ("Two", "z/y/sub/s.md", "zz/Two.md"),
    # From the note's folder, or from the root.
    ("./Own", "longer/s.md", "longer/Own.md"),
    ("../Note", "b/s.md", "Note.md"),
    ("../b/./Note.md", "a/s.md", "b/Note.md"),
    ("./Only", "s.md", None),
    ("../../Note", "a/s.md", None),
    ("/Note", "b/s.md", "Note.md"),
    ("/Only", "s.md", None),
    # Other files need their extension.
    ("foo.png", "s.md", "i/foo.png"),
    ("foo.png.md", "s.md", "foo.png.md"),
    ("foo", "s.md", None),
    ("c", "s.md", None),
    ("c.canvas", "s.md", "c.canvas"),
    ("no extension", "s.md", "no extension"),
    ("Bar.md", "s.md", "Bar.md"),
    ("Bar.md.md", "s.md", "Bar.md.md"),
    ("Bar", "s.md", "Bar.md"),
    # Files that differ only in case.
    ("x/Case", "s.md", "x/Case.md"),
    ("x/case", "s.md", "x/case.md"),
    ("case", "s.md", "x/case.md"),
    ("folder/", "s.md", None),
    ("/", "s.md", None),
    ("..", "a/s.md", None),
]


@pytest.mark.parametrize(("target", "source", "path"), RESOLVED)
def test_a_link_leads_here(target: str, source: str, path: str | None) -> None:
    assert resolve(target, source, FILES) == path


@pytest.mark.parametrize(
    ("path", "style", "written"),
    [
        ("a/Only.md", "shortest", "Only"),
        ("a/Only.md", "absolute", "a/Only"),
        ("a/Only.md", "relative", "Only"),
        ("Note.md", "shortest", "Note"),
        ("b/Note.md", "shortest", "b/Note"),
        ("b/Note.md", "relative", "../b/Note"),
        ("x/Own.md", "relative", "../x/Own"),
        ("a/b/Note.md", "relative", "./b/Note"),
        ("a/b/Note.md", "shortest", "a/b/Note"),
        ("i/foo.png", "shortest", "i/foo.png"),
        ("i/foo.png", "relative", "../i/foo.png"),
        ("foo.png.md", "shortest", "foo.png.md"),
        ("no extension", "shortest", "no extension"),
        ("x/Case.md", "shortest", "x/Case"),
    ],
)
def test_a_link_is_written_so(path: str, style: Style, written: str) -> None:
    assert shortest(path, "a/s.md", FILES, style) == written
    assert resolve(written, "a/s.md", FILES) == path


@pytest.mark.parametrize(
    ("kind", "old", "path", "target"),
    [
        ("wiki", "Old", "a/Only.md", "Only"),
        ("wiki", "Old.md", "a/Only.md", "Only.md"),
        ("markdown", "Old.md", "a/Only.md", "Only.md"),
        ("markdown", "Old", "i/foo.png", "i/foo.png"),
        ("wiki", "Old.md", "foo.png.md", "foo.png.md"),
        ("markdown", "Old.md", "Bar.md.md", "Bar.md.md"),
    ],
)
def test_a_link_keeps_its_extension(kind: str, old: str, path: str, target: str) -> None:
    link = NoteLink(kind, False, old, "", None, 1, 0, 0)  # pyright: ignore[reportArgumentType]
    assert rewritten(link, path, "s.md", FILES) == target
    assert resolve(target, "s.md", FILES) == path


segments = st.sampled_from(["a", "A", "b", "Note", "note", "é", "e\u0301", "x.png", "md", "a.md", "n.md.md"])
files = st.sampled_from(
    ["Note.md", "note.md", "NOTE.MD", "a.md", "a.md.md", "a", "md", "md.md", "x.png", "x.png.md", "é.md", "e\u0301.md"]
)
paths = st.builds(lambda folders, file: "/".join([*folders, file]), st.lists(segments, max_size=3), files)
styles = st.sampled_from(["shortest", "relative", "absolute"])


@given(st.lists(paths, min_size=1, max_size=8, unique=True), paths, styles, st.data())
def test_what_is_written_leads_where_it_should(
    all_paths: list[str], source: str, style: Style, data: st.DataObject
) -> None:
    names = Files(*all_paths)
    path = data.draw(st.sampled_from(all_paths))
    written = shortest(path, source, names, style)
    assert resolve(written, source, names) == path
    for kind in ("wiki", "markdown"):
        link = NoteLink(kind, False, "Old.md", "", None, 1, 0, 0)
        assert resolve(rewritten(link, path, source, names, style), source, names) == path


@given(st.lists(paths, max_size=8, unique=True), paths, st.text("aN./mdé", max_size=8))
def test_a_link_leads_to_a_file_with_that_name_or_nowhere(all_paths: list[str], source: str, target: str) -> None:
    found = resolve(target, source, Files(*all_paths))
    assert found is None or found in all_paths or (not target and found == source)


@given(st.lists(paths, max_size=8, unique=True), paths, st.one_of(st.text("aN./mdé", max_size=8), paths))
def test_the_best_of_many_files_is_the_best_of_all(all_paths: list[str], source: str, target: str) -> None:
    found = resolve(target, source, Files(*all_paths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "_MANY", 1)
        assert resolve(target, source, Files(*all_paths)) == found


def test_thousands_of_files_with_one_name_are_told_apart_in_time() -> None:
    same = SameName(f"post{number}/index.md" for number in range(5_000))
    before = time.process_time()
    for number in range(5_000):
        for target in (f"../post{number}/index.md", f"post{number}/index"):
            assert resolve(target, "post1/index.md", {"index": same, "index.md": ()}.__getitem__) == same[number]
    assert time.process_time() - before < 10  # 0.1 seconds here; a hundred times as long if each is compared.
    assert resolve("index", "post77/a.md", {"index": same}.__getitem__) == "post77/index.md"
    assert resolve("index", "a.md", {"index": same}.__getitem__) == "post0/index.md"

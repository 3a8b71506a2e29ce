"""What the index answers."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.vault.searching import entry
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.queries import BlockRow, FolderRow, HeadingRow, Queries
from tidings.vault.notes.model import NoteTask

COUNTS = [
    *("notes", "canvases", "bases", "attachments", "folders", "tags", "links"),
    *("tasks_open", "tasks_done", "words", "size"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    opened = Index(Vault([tmp_path]), memory=True)
    yield opened
    opened.close()


def fill(index: Index, files: Mapping[str, str]) -> Queries:
    """Each file was changed a second after the one before."""
    index.apply([entry(path, text, mtime=number * 10**9) for number, (path, text) in enumerate(files.items())])
    return index.queries


def test_a_file_is_found_by_its_exact_path(index: Index) -> None:
    queries = fill(index, {"A/Note.md": "---\na: 1\n---\nsome words"})
    file = queries.file("A/Note.md")
    assert file
    assert (file.path, file.folder, file.kind, file.title) == ("A/Note.md", "A", "note", "Note")
    assert (file.words, file.properties, file.problem) == (2, {"a": 1}, None)
    assert queries.file("a/note.md") is None
    assert queries.text("A/Note.md") == "---\na: 1\n---\nsome words"
    assert queries.text("nothing.md") is None


FILES = {
    "Inbox.md": "",
    "Projects/Inbox.md": "",
    "Projects/Old/Inbox.md": "",
    "Projects/Plan.md": "",
    "Cafe\u0301.md": "",
    "Grüße.md": "",
    "pic.png": "",
    "Plan": "",
    "Deep/er/Plan.png": "",
    "v1.2.md": "",
    "double.md.md": "",
}


@pytest.mark.parametrize(
    ("text", "path", "also"),
    [
        ("Inbox.md", "Inbox.md", ()),
        ("Inbox", "Inbox.md", ("Projects/Inbox.md", "Projects/Old/Inbox.md")),
        ("inbox.md", "Inbox.md", ("Projects/Inbox.md", "Projects/Old/Inbox.md")),
        (" /INBOX.MD/ ", "Inbox.md", ("Projects/Inbox.md", "Projects/Old/Inbox.md")),
        ("Projects/inbox", "Projects/Inbox.md", ()),
        ("old/inbox", "Projects/Old/Inbox.md", ()),
        ("Café", "Cafe\u0301.md", ()),
        ("GRÜSSE", "Grüße.md", ()),
        ("gru\u0308ße.md", "Grüße.md", ()),
        ("PIC.png", "pic.png", ()),
        ("pic", None, ()),
        ("Plan", "Plan", ()),
        ("plan", "Plan", ("Projects/Plan.md",)),
        ("plan.md", "Projects/Plan.md", ()),
        ("v1.2", "v1.2.md", ()),
        ("double.md", "double.md.md", ()),
        ("double", None, ()),
        ("box", None, ()),
        ("", None, ()),
        ("/", None, ()),
    ],
)
def test_a_file_is_found_as_users_write_it(index: Index, text: str, path: str | None, also: tuple[str, ...]) -> None:
    assert fill(index, FILES).find(text) == ([path, *also] if path else [])


def test_of_several_files_the_one_that_obsidian_would_choose_is_found_and_the_others_are_told(index: Index) -> None:
    queries = fill(index, {"A/B/Note.md": "", "Longer/Note.md": "", "A/Note.md": "", "C/Note": ""})
    assert queries.find("note") == ["A/Note.md", "Longer/Note.md", "A/B/Note.md", "C/Note"]


def test_files_that_differ_in_case_alone_are_told_apart_where_possible(index: Index) -> None:
    queries = fill(index, {"note.md": "", "Note.md": ""})
    for text, path, also in (
        ("Note", "Note.md", ("note.md",)),
        ("note.md", "note.md", ()),
        ("NOTE", "Note.md", ("note.md",)),
    ):
        assert queries.find(text) == [path, *also]


def test_names_that_are_nearly_right_are_suggested(index: Index) -> None:
    queries = fill(index, {"Meeting notes.md": "", "A/Meetings.md": "", "Shopping list.md": "", "x.png": ""})
    assert queries.near("Meting notes")[0] == "Meeting notes.md"
    assert queries.near("A/meeting.md") == ["A/Meetings.md", "Meeting notes.md"]
    assert queries.near("meeting")[0] == "A/Meetings.md"
    assert queries.near("qqq") == []
    assert queries.near("") == []


def test_the_newest_come_first_and_attachments_do_not(index: Index) -> None:
    queries = fill(index, {"old.md": "", "b.canvas": "", "pic.png": "", "new.md": ""})
    assert [file.path for file in queries.recent()] == ["new.md", "b.canvas", "old.md"]
    assert [file.path for file in queries.recent(1, 1)] == ["b.canvas"]


def test_a_folder_lists_names_and_how_many_notes_are_below_each_folder(index: Index) -> None:
    queries = fill(
        index, {"b.md": "", "a.png": "", "B/x.md": "", "B/C/y.md": "", "B/C/z.png": "", "a/w.md": "", "Bc.md": ""}
    )
    listing = queries.folder("")
    assert listing
    assert listing.folders == (FolderRow("a", 1, 1), FolderRow("B", 2, 3))
    assert [file.path for file in listing.files] == ["a.png", "b.md", "Bc.md"]
    inner = queries.folder("/b/")
    assert inner
    assert (inner.path, inner.folders) == ("B", (FolderRow("B/C", 1, 2),))
    assert [(file.path, file.title) for file in inner.files] == [("B/x.md", "x")]
    assert queries.folder("nothing") is None


def test_an_edit_leaves_the_listing_of_its_folder_as_it_was(index: Index) -> None:
    queries = fill(index, {"A/a.md": "one"})
    before = queries.folder("A")
    index.apply([entry("A/a.md", "two #tag", mtime=99)])
    assert queries.folder("A") == before


def test_an_empty_vault_has_an_empty_folder(index: Index) -> None:
    assert index.queries.folder("") == ("", (), ())
    assert index.queries.stats() == dict.fromkeys(COUNTS, 0)


def test_the_tree_of_folders_can_be_cut_off(index: Index) -> None:
    queries = fill(index, {"A/B/C/d.md": "", "A/e.png": "", "Ä/f.md": "", "a b/g.md": ""})
    assert queries.structure() == [
        FolderRow("A", 1, 2),
        FolderRow("A/B", 1, 1),
        FolderRow("A/B/C", 1, 1),
        FolderRow("a b", 1, 1),
        FolderRow("Ä", 1, 1),
    ]
    assert [folder.path for folder in queries.structure(1)] == ["A", "a b", "Ä"]
    assert [folder.path for folder in queries.structure(1, "a")] == ["A/B"]
    assert [folder.path for folder in queries.structure(within="A/B")] == ["A/B/C"]


def test_several_vaults_are_folders_at_the_top_even_when_they_are_empty(tmp_path: Path) -> None:
    for name in ("One", "Two"):
        (tmp_path / name).mkdir()
    index = Index(Vault([tmp_path / "One", tmp_path / "Two"]), memory=True)
    queries = fill(index, {"One/a.md": ""})
    listing = queries.folder("")
    assert listing
    assert listing.folders == (FolderRow("One", 1, 1), FolderRow("Two", 0, 0))
    assert queries.folder("two") == ("Two", (), ())
    assert queries.stats()["folders"] == 2
    index.close()


@pytest.mark.parametrize("common", [1, 1000])
def test_notes_have_a_tag_if_they_have_one_nested_in_it(
    index: Index, common: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.vault.index.queries._COMMON", common)
    queries = fill(index, {"b.md": "#Work/urgent", "a.md": "#work", "c.md": "#worker", "d.md": "#work-life"})
    assert [file.path for file in queries.with_tag("#Work")] == ["a.md", "b.md"]
    assert [file.path for file in queries.with_tag("work", 1, 1)] == ["b.md"]
    assert [file.path for file in queries.with_tag("work/urgent")] == ["b.md"]
    tag = queries.tag(" #WORK/ ")
    assert tag
    assert (tag.shown, tag.notes, tag.total) == ("work", 1, 2)
    assert queries.tag("nothing") is None


def test_what_a_note_holds_is_listed_from_top_to_bottom(index: Index) -> None:
    text = "---\naliases: [Z, A]\n---\n# One\n#b #a #B\n- [ ] first ^x\n## Two\n- [x] second ^y\n"
    queries = fill(index, {"a.md": text, "B/b.md": "- [/] third"})
    assert queries.headings("a.md") == [HeadingRow(1, "One", 4), HeadingRow(2, "Two", 7)]
    assert queries.blocks("a.md") == [BlockRow("x", 6), BlockRow("y", 8)]
    assert queries.aliases("a.md") == ["Z", "A"]
    assert queries.tags_of("a.md") == ["b", "a"]
    assert queries.headings("nothing.md") == []
    assert queries.tasks("a.md") == [NoteTask(6, " ", "first ^x"), NoteTask(8, "x", "second ^y")]
    assert [task.line for task in queries.tasks("a.md", 1)] == [6]
    assert queries.tasks("B/b.md") == [NoteTask(1, "/", "third")]
    assert [task.line for task in queries.tasks("a.md", limit=1)] == [6]


def test_properties_in_use_are_counted_by_note(index: Index) -> None:
    queries = fill(index, {"a.md": "---\nTags: [x, y]\nrating: 1\n---\n", "b.md": "---\ntags: z\n---\n"})
    assert queries.properties_in_use() == {"tags": 2, "rating": 1}


def test_the_numbers_are_exact(index: Index) -> None:
    files = {
        "a.md": "#one #two/x [[b]] ![[pic.png]]\n- [ ] open\n- [x] done\n- [-] given up",
        "Deep/er/b.md": "three more words #ONE",
        "c.canvas": "{}",
        "d.base": "",
        "pic.png": "12345",
    }
    assert fill(index, files).stats() == {
        "notes": 2,
        "canvases": 1,
        "bases": 1,
        "attachments": 1,
        "folders": 2,
        "tags": 2,
        "links": 2,
        "tasks_open": 1,
        "tasks_done": 2,
        "words": sum(len(files[path].split()) for path in ("a.md", "Deep/er/b.md")),
        "size": sum(map(len, files.values())),
    }
    assert [*index.queries.stats(sums=False)] == COUNTS[:-2]


def test_a_name_has_candidates_whatever_their_folder(index: Index) -> None:
    queries = fill(index, {"A/x.md": "", "X.md": "", "x": "", "x.png": ""})
    assert queries.candidates("x") == ["A/x.md", "X.md", "x"]
    assert queries.candidates("x.png") == ["x.png"]

"""The only way from a text to a place on the disk."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.vault.files import paths
from tidings.vault.files.paths import BadPath, Vault, VaultUnusable, path_of, uri
from tidings.vault.notes.model import key

HOSTILE = st.lists(
    st.sampled_from(
        ["..", ".", "/", "\\", "a", "in", "out", "loop", "up", "C:", "~", "\0", "\u202e", "\u200b", "/", "."]
    )
    | st.text(max_size=4),
    max_size=7,
).map("".join)


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    """A vault with links to everywhere, beside a secret."""
    base = tmp_path_factory.mktemp("paths").resolve()
    root = base / "vault"
    (root / "a/in").mkdir(parents=True)
    (root / ".obsidian").mkdir()
    (root / "Private").mkdir()
    (base / "secret").mkdir()
    (base / "secret/key.md").write_text("secret")
    (root / "a/note.md").write_text("note")
    (root / "out").symlink_to(base / "secret")
    (root / "up").symlink_to("..")
    (root / "in").symlink_to("a/in")
    (root / "self").symlink_to(".")
    (root / "loop").symlink_to("loop")
    (root / "settings").symlink_to(".obsidian")
    (root / "shown").symlink_to("Private")
    (root / "nowhere.md").symlink_to(base / "not there.md")
    (root / "later.md").symlink_to("a/later.md")
    return Vault([root], exclude=["Private", "*.bak", "Work/Old/**", "/top.md", "x/**/[!a]?.md"])


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/note.md",
        "new/deep/note.md",
        "Zeichen äöü 🎉.md",
        "\U0001f468\u200d\U0001f469.md",
        "in/x.md",
        "self/a/note.md",
    ],
)
def test_a_plain_path_is_located(vault: Vault, path: str) -> None:
    assert vault.locate(path, creating=True) == vault.mounts[0].root / path
    assert vault.visible(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("//server/share", "absolute"),
        ("C:/x", "absolute"),
        ("C:", "absolute"),
        ("\\\\server\\share", "backslash"),
        ("a\\..\\b", "backslash"),
        ("..", r"'\.\.'"),
        ("a/../../x", r"'\.\.'"),
        ("./a", r"'\.'"),
        ("a//b", "empty name"),
        ("a/", "empty name"),
        ("\u200b", "empty name"),
        ("a\0b", "control"),
        ("a\nb.md", "control"),
        ("a\x85b.md", "control"),
        ("\udcff.md", "control"),
        (".obsidian/app.json", "hidden"),
        ("a/~$Plan.docx", "temporary files"),
        ("Plan.md.TMP/x.md", "temporary files"),
        (".trash", "hidden"),
        ("a/.git/config", "hidden"),
        ("\u200c.git/config", "hidden"),
        ("\ufeff..", "'.*'"),
        ("a\u202egpj.md", "invisible"),
        ("zero\u200bwidth.md", "invisible"),
        ("a\u200db.md", "invisible"),
        ("\uff0e\uff0e/x", "look-alike"),
        ("\u2025/x", "look-alike"),
        ("a\uff0fb", "look-alike"),
        ("a\uff3cb", "look-alike"),
        ("NUL", "device"),
        ("aux.md", "device"),
        ("a/Com1.txt.md", "device"),
        ("conin$", "device"),
        ("\uff23ON", "device"),
        ("note.", "ends with"),
        ("note ", "ends with"),
        ("folder /x.md", "ends with"),
        ("ä" * 128, "255 bytes"),
        ("/".join(["d" * 200] * 30), "too long"),
        ("Private/x.md", "excluded"),
        ("private", "excluded"),
        ("a/b.BAK", "excluded"),
        ("Work/Old", "excluded"),
        ("work/old/x/y.md", "excluded"),
        ("top.md", "excluded"),
        ("x/y/z/bc.md", "excluded"),
        ("out/key.md", "symbolic link"),
        ("out", "symbolic link"),
        ("up/secret/key.md", "symbolic link"),
        ("self/out/new.md", "symbolic link"),
        ("settings/app.json", "symbolic link"),
        ("shown/x.md", "symbolic link"),
        ("nowhere.md", "symbolic link"),
        ("loop", "circle"),
        ("loop/x.md", "circle"),
    ],
)
def test_a_path_that_could_mean_another_place_is_refused_with_cause_and_cure(vault: Vault, path: str, why: str) -> None:
    for creating in (False, True):
        with pytest.raises(BadPath, match=why) as refusal:
            vault.locate(path, creating=creating)
        assert refusal.value.reason
        assert refusal.value.cure
        assert str(refusal.value).isprintable()


@pytest.mark.parametrize("path", ["x/y/z/ab.md", "deep/top.md", "a/Private notes.md", "…and more.md", "x/bak"])
def test_what_only_resembles_an_exclusion_is_served(vault: Vault, path: str) -> None:
    assert vault.locate(path, creating=True)
    assert vault.visible(path)


@pytest.mark.parametrize(
    "name",
    [
        "A.md.tmp",
        "~A.md.tmp",
        "~syncthing~A.md.tmp",
        ".syncthing.A.md.tmp",
        "A.md.tmp.4711.1767225600",
        ".A.md.swp",
        "A.md.swp",
        "A.md.SWO",
        "4913",
        "A.md~",
        "#A.md#",
        "~$A.docx",
        ".~lock.A.odt#",
        "A.md.part",
        "A.pdf.partial",
        "A.pdf.crdownload",
        "A.md.filepart",
        "A.md.!sync",
        "A.md.icloud",
        ".A.md.icloud",
        "A.md.sb-1a2b3c4d-Xy12Zz",
        ".stfolder",
        ".dropbox.cache",
        "desk.tmp/A.md",
    ],
)
def test_what_programs_have_not_finished_is_not_served(tmp_path: Path, name: str) -> None:
    vault = Vault([tmp_path])
    assert vault.relative(tmp_path / "a" / name) is None
    assert not vault.visible(name)
    with pytest.raises(BadPath, match=r"temporary|hidden"):
        vault.locate(name)


@pytest.mark.parametrize(
    "name",
    [
        "~draft.md",
        "~",
        "4913.md",
        "Note (conflicted copy 2026-01-01).md",
        "Note.sync-conflict-20260101-120000-ABCDEFG.md",
        "Note.tmp.md",
        "about tmp",
        "Part.md",
        "Draft~.md",
        "v1.tmp.2 notes.md",
    ],
)
def test_what_only_resembles_something_unfinished_is_served(tmp_path: Path, name: str) -> None:
    vault = Vault([tmp_path])
    assert vault.relative(tmp_path / name) == name
    assert vault.locate(name, creating=True) == tmp_path / name


@pytest.mark.parametrize("character", ':*?"<>|#^[]')
def test_characters_that_windows_or_links_cannot_have_are_refused_for_new_names_only(
    tmp_path: Path, character: str
) -> None:
    vault = Vault([tmp_path])
    path = f"What{character}/Why{character}.md"
    with pytest.raises(BadPath, match=r"Windows|links"):
        vault.locate(path, creating=True)
    assert vault.locate(path) == tmp_path / path
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).touch()
    assert vault.locate(path, creating=True) == tmp_path / path
    assert vault.locate(f"What{character}/New.md", creating=True)


@pytest.mark.parametrize("name", ["aux.md", "zero\u200bwidth.md", "a\uff0fb.md", "dot.", " space.md"])
def test_who_has_a_file_with_an_unwise_name_can_read_it(tmp_path: Path, name: str) -> None:
    vault = Vault([tmp_path])
    (tmp_path / name).touch()
    assert vault.relative(tmp_path / name) == name
    assert vault.locate(name) == tmp_path / name


@given(HOSTILE, st.booleans())
@example("self/self/../out/key.md", False)
@example("in/../../secret/key.md", True)
def test_whatever_is_located_lies_in_the_vault(vault: Vault, text: str, creating: bool) -> None:
    root = vault.mounts[0].root
    try:
        place = vault.locate(text, creating=creating)
    except BadPath:
        return
    real = Path(os.path.realpath(place))
    assert real.is_relative_to(root)
    assert not any(name.startswith(".") or name == "Private" for name in real.relative_to(root).parts)
    assert place == Path(os.path.normpath(place))
    assert vault.relative(place) == text


@given(HOSTILE)
def test_whatever_is_seen_on_the_disk_can_be_read(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.mktemp("seen").resolve()
    vault = Vault([root])
    path = vault.relative(str(root) + "/" + text)
    if path is None or len(path.encode()) > 200:
        return
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).touch()
    assert vault.locate(path) == root / path


def test_what_is_outside_or_hidden_or_excluded_has_no_path(vault: Vault) -> None:
    root = vault.mounts[0].root
    assert vault.relative(root / "a/note.md") == "a/note.md"
    for other in [root, root.parent / "vault2/a.md", root / ".obsidian/app.json", root / "Private/x.md", "/", "a"]:
        assert vault.relative(other) is None


def test_several_vaults_have_their_names_first(tmp_path: Path) -> None:
    for name in ["one/Notes", "two/notes", "three/.hidden", "four/Notes"]:
        (tmp_path / name).mkdir(parents=True)
    vault = Vault(
        [tmp_path / "one/Notes", tmp_path / "two/notes", tmp_path / "three/.hidden", tmp_path / "four/Notes"],
        exclude=["x"],
    )
    assert [mount.name for mount in vault.mounts] == ["Notes", "notes 2", "Vault", "Notes 3"]
    assert vault.locate("notes 2/a/b.md", creating=True) == tmp_path / "two/notes/a/b.md"
    assert vault.relative(tmp_path / "four/Notes/b.md") == "Notes 3/b.md"
    assert vault.relative(tmp_path / "four/Notes/x/b.md") is None
    assert vault.mount_of("Vault/b.md").root == tmp_path / "three/.hidden"
    assert vault.split("Vault/b.md") == (vault.mounts[2], "b.md")
    assert vault.mounts[2].path("b.md") == "Vault/b.md"
    assert vault.mounts[2].path("") == "Vault"
    assert vault.locate("Notes") == tmp_path / "one/Notes"
    with pytest.raises(BadPath, match="whole vault"):
        vault.locate("Notes", creating=True)
    with pytest.raises(BadPath, match="'Notes', 'notes 2'"):
        vault.locate("Other/b.md")


def test_a_link_from_one_vault_to_another_leads_out(tmp_path: Path) -> None:
    for name in ["a", "ab"]:
        (tmp_path / name).mkdir()
    (tmp_path / "a/link").symlink_to(tmp_path / "ab")
    with pytest.raises(BadPath, match="leads out"):
        Vault([tmp_path / "a", tmp_path / "ab"]).locate("a/link/x.md")


def test_a_vault_that_is_itself_a_link_is_served(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    vault = Vault([tmp_path / "link"])
    assert vault.mounts[0].root == tmp_path / "real"
    assert vault.locate("x.md") == tmp_path / "real/x.md"


def test_folders_that_cannot_be_served_are_refused_with_cause_and_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    a, b = tmp_path / "a", tmp_path / "a/b"
    for roots, why in [
        ([], "no vault"),
        ([tmp_path / "missing"], "no folder"),
        ([tmp_path / "file"], "is a file"),
        ([tmp_path / "loop"], "cannot be used"),
        ([Path("a\0b")], "cannot be used"),
        ([a, a], "twice"),
        ([a, b], "within the other"),
        ([b, a], "within the other"),
    ]:
        with pytest.raises(VaultUnusable, match=why):
            Vault(roots)

    def refuse(_: object) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(VaultUnusable, match="may not be read"):
        Vault([a])


@pytest.mark.parametrize("glob", ["", " ", "/", "[z-a]"])
def test_an_exclusion_that_names_nothing_is_refused(tmp_path: Path, glob: str) -> None:
    with pytest.raises(VaultUnusable, match="exclusion"):
        Vault([tmp_path], exclude=[glob])


@given(st.text(), st.sampled_from(["note", "folder", "backlinks"]))
def test_a_path_comes_back_from_its_uri(text: str, kind: str) -> None:
    made = uri(kind, text)
    assert path_of(made) == text
    assert path_of(made + "?mode=full#x") == text
    assert made.isascii()


@pytest.mark.parametrize("text", ["", "note/a", "file:///a", "vault://note", "vault://note/%ff"])
def test_what_is_no_uri_of_a_vault_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        path_of(text)


@given(st.text())
def test_keys_ignore_case_and_normal_form(text: str) -> None:
    import unicodedata

    assert key(unicodedata.normalize("NFD", text)) == key(unicodedata.normalize("NFC", text)) == key(text)
    assert key(key(text)) == key(text)


def test_names_that_differ_in_case_or_accents_have_one_key() -> None:
    assert key("CAFÉ.md") == key("cafe\u0301.MD") == "café.md"
    assert key("Straße") == "strasse"


def test_on_windows_what_is_unwise_elsewhere_is_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aux.md").touch()
    vault = Vault([tmp_path])
    assert vault.relative(tmp_path / "aux.md") == "aux.md"
    monkeypatch.setattr(paths, "_ON_WINDOWS", True)
    assert vault.relative(tmp_path / "aux.md") is None
    assert vault.relative(tmp_path / "plan.md") == "plan.md"
    for path, why in [("aux.md", "device"), ("plan.md:stream", "Windows"), ("plan.md.", "ends with")]:
        with pytest.raises(BadPath, match=why):
            vault.locate(path)


def test_a_path_that_is_endless_is_refused_at_once(vault: Vault) -> None:
    with pytest.raises(BadPath, match="too long"):
        vault.locate("a/" * 1_000_000 + "b")

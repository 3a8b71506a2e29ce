"""What is said of a file that is not the version that somebody has read."""

import re
from pathlib import Path

import pytest

from tidings.vault.files.content import Texts
from tidings.vault.files.outcomes import Conflict, WriteRefused
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.notes.edits import ReplaceText


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text("one\ntwo\nthree\n")
    return tmp_path


@pytest.fixture
def writer(root: Path) -> VaultWriter:
    return VaultWriter(Vault([root]))


class Nothing:
    def sources(self, names: object, /) -> list[str]:
        return []

    def candidates(self, name: str, /) -> list[str]:
        return []


def test_a_conflict_says_what_has_changed_since_it_was_read(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_text("one\n2\nthree\n")
    now = VaultWriter(Vault([root])).read("a.md").version
    with pytest.raises(Conflict) as refusal:
        writer.edit("a.md", [ReplaceText("three", "3")], if_match=read)
    assert str(refusal.value) == (
        f"'a.md' has changed: it is version {now} now, not {read}. Nothing was done. Look at the differences, then "
        f"try again with if_match='{now}'.\n"
        "What changed since you read it:\n"
        "--- a.md\n+++ a.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        "What your change would do now:\n"
        "--- a.md\n+++ a.md\n@@ -1,3 +1,3 @@\n one\n 2\n-three\n+3"
    )
    assert (root / "a.md").read_text() == "one\n2\nthree\n"


def test_a_conflict_says_if_the_change_cannot_be_made_any_more(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_text("one\n2\nthree\n")
    with pytest.raises(
        Conflict, match=r"since you read it:\n(?s:.*)-two\n\+2\n(?s:.*)does not fit the current text: .*two"
    ):
        writer.edit("a.md", [ReplaceText("two", "zwei")], if_match=read)


def test_a_conflict_says_if_somebody_else_has_made_the_change(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_text("one\n2\nthree\n")
    with pytest.raises(Conflict, match="It already says what you wanted"):
        writer.write("a.md", "one\n2\nthree\n", if_match=read)


def test_who_wrote_a_version_is_told_what_has_changed_since(root: Path, writer: VaultWriter) -> None:
    mine = writer.append("a.md", "four").version
    (root / "a.md").write_text("one\ntwo\nthree\n")
    with pytest.raises(Conflict, match=r"since you read it:\n(?s:.*)-four"):
        writer.append("a.md", "five", if_match=mine)


def test_what_is_moved_or_deleted_is_compared_as_well(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_text("one\n2\nthree\n")
    for attempt in (
        lambda: writer.delete("a.md", if_match=read),
        lambda: writer.move("a.md", "b.md", references=Nothing(), if_match=read),
    ):
        with pytest.raises(Conflict, match=r"then try again(?s:.*)since you read it:\n(?s:.*)-two\n\+2") as refusal:
            attempt()
        assert "Your change" not in str(refusal.value)
        assert (root / "a.md").exists()


def test_a_short_text_is_shown_if_what_was_read_is_not_known_any_more(root: Path, writer: VaultWriter) -> None:
    with pytest.raises(Conflict, match=r"is no longer known\. This is the current text:\none\ntwo\nthree"):
        writer.delete("a.md", if_match="0" * 16)
    (root / "a.md").write_text("one\n" * 1000)
    with pytest.raises(Conflict, match=r"is no longer known\. Read it again\.\Z"):
        writer.delete("a.md", if_match="0" * 16)


def test_another_encoding_of_the_same_text_is_another_version(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_bytes("one\ntwo\nthree\n".encode("utf-8-sig"))
    with pytest.raises(Conflict, match="Only its encoding"):
        writer.delete("a.md", if_match=read)


def test_what_is_no_text_is_not_compared(root: Path, writer: VaultWriter) -> None:
    read = writer.read("a.md").version
    (root / "a.md").write_bytes(b"\xff\0")
    with pytest.raises(Conflict, match=r"Read it, then try again\.\Z"):
        writer.delete("a.md", if_match=read)


@pytest.mark.parametrize("text", ["nonsense", "latest", "0" * 15, "G" * 16, '"0000000000000000"', "x" * 10_000])
def test_what_cannot_be_a_version_is_called_so(root: Path, writer: VaultWriter, text: str) -> None:
    for attempt in (
        lambda: writer.write("a.md", "x", if_match=text),
        lambda: writer.edit("a.md", [ReplaceText("one", "1")], if_match=text),
        lambda: writer.delete("a.md", if_match=text),
        lambda: writer.append("new.md", "x", if_match=text),
    ):
        with pytest.raises(
            WriteRefused, match=re.escape(f"{text[:80]!r} is not a version") + ".*`read`, `info`"
        ) as refusal:
            attempt()
        assert len(str(refusal.value)) < 400
    assert (root / "a.md").read_text() == "one\ntwo\nthree\n"


def test_the_texts_that_were_read_last_are_kept() -> None:
    texts = Texts(most=10)
    texts.keep("a", "1234")
    texts.keep("b", "äö")
    texts.keep("a", "1234")
    texts.keep("c", "123")
    assert [texts.get(version) for version in "abc"] == ["1234", None, "123"]
    texts.keep("d", "12345678901")
    assert [texts.get(version) for version in "acd"] == ["1234", "123", None]
    texts.keep("e", "\ud800")
    assert texts.get("e") == "\ud800"

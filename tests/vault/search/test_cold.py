"""Searches of a vault whose first index is not complete: answered from the disk, as the index would."""

from pathlib import Path
from random import Random

import pytest

from tests.vault.building import build
from tests.vault.search.help_page import asked, generated, pages_in, read_literally
from tests.vault.search.test_help_page import ON_THE_PAGE
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.search import search as module
from tidings.vault.search.search import cold_search, search
from tidings.vault.tools import lookup
from tidings.vault.tools.lookup import ResultRange
from tidings.vault.view import IndexStatus, VaultView

BUILDING = IndexStatus("indexing", (0, 3))


def found(root: Path, query: str) -> set[str] | None:
    page = cold_search(Vault([root]), query, limit=10_000, offset=0, sort="path", hidden=None)
    return None if page is None else {hit.path for hit in page.hits}


def test_the_disk_is_searched_as_the_help_page_says(tmp_path: Path) -> None:
    random = Random(7)
    generated(tmp_path, random, notes=60, attachments=20)
    pages = pages_in(tmp_path)
    for query in [*ON_THE_PAGE.split(" | "), *(asked(random, pages) for _ in range(60))]:
        assert found(tmp_path, query) == read_literally(pages, query), query


def test_no_encoding_and_no_letter_hides_a_note(tmp_path: Path) -> None:
    for name, data in {
        "Plain": b"a KIWI\n",
        "Kelvin": "\u212aiw\u0130\n".encode(),
        "Marked": "\ufeffkiwi".encode(),
        "Wide": "kiwi".encode("utf-16"),
        "Broken": b"\xff\xc3kiwi\xc3",
        "Late": b"x" * 100_000 + b"kiwi",
        "Without": b"apple",
        "A Kiwi in the name": b"",
    }.items():
        (tmp_path / f"{name}.md").write_bytes(data)
    (tmp_path / "Escaped.canvas").write_text('{"nodes": [{"id": "1", "type": "text", "text": "\\u006biwi"}]}')
    (tmp_path / "Kiwi.canvas").write_text("{}")
    vault = Vault([tmp_path])
    index = Index(vault, memory=True)
    build(vault, index)
    for query in ("kiwi", "KIWI", '"kiwi"', "kiwi -apple", "match-case:kiwi", "kiwi a"):
        indexed = {hit.path for hit in search(index.queries, query, limit=100).hits}
        assert found(tmp_path, query) == indexed, query
        assert indexed, query
    assert {"Kelvin.md", "Wide.md", "Broken.md", "Escaped.canvas"} <= (found(tmp_path, "kiw") or set())
    index.close()


def test_the_order_and_the_lines_are_those_of_the_index(tmp_path: Path) -> None:
    generated(tmp_path, Random(8), notes=60, attachments=5)
    vault = Vault([tmp_path])
    index = Index(vault, memory=True)
    build(vault, index)
    for query in ("sync", '"happy cat"', "meeting OR vault", "tag:#work", "task:mix"):
        from_disk = cold_search(vault, query, limit=20, offset=0, sort="modified", hidden=None)
        assert from_disk is not None
        assert from_disk.hits
        indexed = search(index.queries, query, sort="modified")
        assert [hit[:2] + hit[3:] for hit in from_disk.hits] == [hit[:2] + hit[3:] for hit in indexed.hits]
    index.close()


def test_a_sigma_within_a_word_is_found_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("ΣΊΣΥΦΟΣ\n")
    assert found(tmp_path, "match-case:ΊΣ") == {"a.md"}


def test_an_answer_from_the_disk_is_complete_and_one_of_a_part_of_the_index_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "A.md").write_text("default #work\n")
    index = Index(Vault([tmp_path]), memory=True)
    view = VaultView(index.queries, Vault([tmp_path]), BUILDING)
    for query in ("ault", "tag:#work"):
        answer = lookup.search(view, query, "relevance", ResultRange(20)).structured_content or {}
        assert ([hit["path"] for hit in answer["results"]], "note" in answer) == (["A.md"], False)
    monkeypatch.setattr(module, "_MOST_PARSED", 0)
    answer = lookup.search(view, "tag:#work", "relevance", ResultRange(20)).structured_content or {}
    assert answer["total"] == 0
    assert "still being built" in answer["note"]
    monkeypatch.setattr(module, "_MOST_CHARACTERS", 3)
    assert found(tmp_path, "ault") is None
    monkeypatch.setattr(module, "_SECONDS", -1.0)
    assert found(tmp_path, "nowhere") is None  # Also if no file matches.
    vault = Vault([tmp_path])
    tmp_path.rename(tmp_path.with_name("away"))
    assert cold_search(vault, "ault", limit=1, offset=0, sort="path", hidden=None) is None
    index.close()

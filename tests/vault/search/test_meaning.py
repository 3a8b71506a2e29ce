"""Searching by meaning, with and without the extra that it needs."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vault.building import build
from tidings._kit.lazy import install_command
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.search import search as meaning
from tidings.vault.search.query import BadQuery
from tidings.vault.search.search import parts_of, search_by_meaning

NOTES = {
    "Garage.md": "# Car\n\nThe automobile needs new tyres before winter.\n\n## Oil\n\nChange the motor oil in March.\n",
    "Kitchen.md": "Bake the dough for forty minutes, then let the loaf cool down. #food\n",
    "Doctor.md": "The physician prescribed antibiotics against the infection.\n",
    "Old/Trip.md": "We flew to Lisbon and stayed in a small hotel near the river.\n",
}
installed = pytest.mark.skipif(importlib.util.find_spec("wordllama") is None, reason="the extra is not installed")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    for path, text in NOTES.items():
        (tmp_path / "vault" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vault" / path).write_text(text)
    vault = Vault([tmp_path / "vault"])
    index = Index(vault, tmp_path / "cache")
    build(vault, index)
    yield index
    index.close()


def best(index: Index, query: str) -> str:
    return search_by_meaning(index.queries, query, limit=1, offset=0, hidden=None).hits[0].path


@installed
@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("vehicle maintenance", "Garage.md"),
        ("how do I make bread?", "Kitchen.md"),
        ("medicine for illness", "Doctor.md"),
        ("holiday abroad", "Old/Trip.md"),
        ("tag:#food illness", "Kitchen.md"),
        ("(an unclosed parenthesis about medicine", "Doctor.md"),
    ],
)
def test_notes_are_found_by_what_they_mean(index: Index, query: str, path: str) -> None:
    assert best(index, query) == path


@installed
def test_only_changed_notes_are_embedded_again(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best(index, "x")
    embedded: list[str] = []
    real = meaning._Model.vectors
    monkeypatch.setattr(meaning._Model, "vectors", lambda self, texts: embedded.extend(texts) or real(self, texts))
    (tmp_path / "vault" / "Doctor.md").write_text("Seven sailing boats in the harbour.\n")
    build(Vault([tmp_path / "vault"]), index)
    meaning._vectors_at.cache_clear()  # As after a restart.
    assert best(index, "ships on the water") == "Doctor.md"
    assert embedded == ["Doctor\nSeven sailing boats in the harbour.\n", "ships on the water"]


@installed
def test_notes_that_there_is_no_time_for_are_counted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "_MEANING_SECONDS", -1.0)
    page = search_by_meaning(index.queries, "bread", limit=5, offset=0, hidden=None)
    assert page.problem == "4 notes were not looked at for their meaning yet: search again."


def test_without_the_extra_the_error_names_it(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    meaning._model.cache_clear()
    meaning._vectors_at.cache_clear()
    with pytest.raises(BadQuery, match=f"extra `semantic`.*{re.escape(install_command('semantic'))}"):
        best(index, "bread")


def test_the_parts_of_a_note_are_all_of_it_with_their_lines() -> None:
    text = "one\n\n" + "two " * 200 + "\n\n# Three\nfour\n\n\nfive\n"
    parts = list(parts_of(text))
    assert "".join(part for _, part in parts) == text
    assert [(line, part[:5]) for line, part in parts] == [(1, "one\n\n"), (3, "two t"), (5, "# Thr")]

"""What is offered instead of a word that is nowhere."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.vault.shelf import Shelf
from tidings.vault.search.matching import meant_instead


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path / "vault")
    shelf.put({"A.md": "An apple and Zürich, and 東京.\n", "B.md": "application\n"})
    yield shelf
    shelf.index.close()


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("aplpe", "apple"),
        ("APPEL", "apple"),
        ("zürch", "zürich"),
        ("zurich", "zürich"),
        ("aplication", "application"),
        ("xyzzy", None),
        ("pple", None),
        ("aplpe pie", None),
        ('"aplpe"', None),
        ("file:aplpe", None),
        ("aplpe++", None),
    ],
)
def test_a_word_is_answered_with_the_nearest_that_is_known(shelf: Shelf, query: str, word: str | None) -> None:
    assert meant_instead(shelf.index.queries, query) == word


def test_a_connection_that_may_only_read_can_be_asked_in_a_transaction_and_again_and_still_only_reads(
    shelf: Shelf,
) -> None:
    with closing(shelf.index.reader()) as queries:
        for _ in range(2):
            with queries.snapshot():
                assert meant_instead(queries, "aplpe") == "apple"
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            queries.connection.execute("DELETE FROM files")


def test_a_word_that_has_gone_is_not_offered(shelf: Shelf) -> None:
    shelf.put({"A.md": "cherries\n"})
    assert meant_instead(shelf.index.queries, "aplpe") is None
    assert meant_instead(shelf.index.queries, "cherrys") == "cherries"

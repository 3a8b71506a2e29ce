"""Searches compared with a literal reading of Obsidian's help page, on vaults of the size of that help."""

from pathlib import Path
from random import Random

import pytest

from tests.vault.building import build
from tests.vault.search.help_page import asked, generated, pages_in, read_literally
from tests.vault.searching import found
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.search import sql

ON_THE_PAGE = """\
"happy cat" | "they said \\"hello,\\" to" | meeting work | meeting OR work | meeting work OR sync personal | -sync
meeting (work OR sync) personal | meeting -work | meeting -work -sync | meeting -(work sync) | file:.jpg | file:2022
path:"Daily notes/2022" | content:"happy cat" | match-case:HappyCat | ignore-case:ikea | ignore-case:happycat
tag:#work | #work | line:(mix flour) | block:(dog cat) | section:(dog cat) | task:mix | task-todo:mix | task-done:mix
task:(mix OR flour) | [aliases] | [aliases:Name] | [status:Draft OR Published] | [status:"Draft"] | [rating:<5]
[empty:null] | /\\d{4}-\\d{2}-\\d{2}/ | path:/\\d{4}/ | ault | a | yn | [[ | [[Va | "]]" | C++ | 识管 | 知 | é
-file:.md | -path:sync | file:.png -sync | match-case:(vault -Vault) | task-todo:(match-case:Sync OR /me+t/)
-tag:#work -task:"" | -[status] x
"ult def" | İz | traß | αβ""".replace("\n", " | ")


@pytest.mark.parametrize(("seed", "most_words"), [(1, 250), (2, 3)])
def test_every_operator_finds_what_the_help_page_promises(
    tmp_path: Path, seed: int, most_words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_MOST_WORDS", most_words)  # Parts of more words are looked for in the texts themselves.
    compare(tmp_path, seed, 250)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 110))
def test_so_do_many_more_queries_on_many_more_vaults(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, seed, 1000)


def compare(root: Path, seed: int, queries: int) -> None:
    random = Random(seed)
    generated(root, random)
    pages = pages_in(root)
    index = Index(Vault([root]), memory=True)
    build(Vault([root]), index)
    some = [*ON_THE_PAGE.split(" | "), *(asked(random, pages) for _ in range(queries))]
    results = {query: (found(index.queries, query), read_literally(pages, query)) for query in some}
    index.close()
    different = {query: ours ^ theirs for query, (ours, theirs) in results.items() if ours != theirs}
    assert not different
    assert sum(0 < len(theirs) < len(pages) for _, theirs in results.values()) > len(results) / 2  # Most say something.

"""How well does a search by meaning find a page of this project's own guides, asked for in other words?

Each question was written without looking for the words of its page. Beside it: the same question by words alone.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.parts.vault_yard import Yard
from benchmarks.report import Cell, Row, leave_out, say
from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.scan import plan, read_all
from tidings.vault.search.query import BadQuery
from tidings.vault.search.search import search_by_meaning, search_by_words

GUIDES: Final = Path(__file__).parents[2] / "docs"
_SHOWN: Final = 5
QUESTIONS: Final = {
    "how do I keep strangers out": "authentication.md",
    "logging in with a token": "authentication.md",
    "several copies of the program behind a load balancer": "replicas.md",
    "machines that share one queue of events": "replicas.md",
    "bring a sleeping assistant back when something happens": "waking.md",
    "which chat programs can be woken up": "hosts.md",
    "publishing a new release to the package index": "releasing.md",
    "my Markdown notebook as a source for an assistant": "vault.md",
    "find text in my notes": "vault.md",
    "download a page and turn it into readable text": "web.md",
    "be told when a website changes": "web.md",
    "hostile pages that try to give orders to the model": "web.md",
    "look at the traffic between both sides": "inspector.md",
    "which guarantees are there when messages get lost": "promises.md",
    "deploying with a reverse proxy and limits on memory": "production.md",
    "write my first program that pushes updates": "tutorials/first-server.md",
    "the remote side took too long to accept": "errors/connect-timed-out.md",
    "the database file is locked or the folder is not writable": "errors/state-unusable.md",
    "the message broker is down": "errors/bus-unavailable.md",
    "a long running job vanished": "errors/task-lost.md",
    "the document does not exist any more": "errors/resource-not-found.md",
    "reconnect after the network was gone": "client.md",
    "keep a local copy of what the other side has": "client.md",
    "notify readers that a document is different now": "server.md",
}


def measure(yard: Yard) -> Iterator[Row]:  # noqa: ARG001 - every part gets it
    say(f"meaning: {len(QUESTIONS)} questions")
    vault = Vault([GUIDES])
    with closing(Index(vault, memory=True)) as index:
        for batch in read_all(vault, plan(vault, index).changed):
            index.apply(batch.entries)
        ask = index.queries

        def paths(find: Callable[..., object], question: str) -> list[str]:
            page = find(ask, question, limit=50, offset=0, hidden=None)
            return [hit.path for hit in page.hits]  # type: ignore[attr-defined]

        try:
            ranks = {
                name: [_rank(paths(find, question), path) for question, path in QUESTIONS.items()]
                for name, find in (("merged", search_by_meaning), ("words alone", search_by_words))
            }
        except BadQuery as missing:
            leave_out("meaning", missing)
            return
    for what, value in (("% of questions with the page among the first five", _found), ("mean reciprocal rank", _mean)):
        others: dict[str, Cell] = {"words alone": value(ranks["words alone"])}
        yield Row("meaning", what, tidings=value(ranks["merged"]), others=others)


def _rank(paths: list[str], wanted: str) -> int:
    return paths.index(wanted) + 1 if wanted in paths else 0


def _found(ranks: list[int]) -> float:
    return 100 * sum(0 < rank <= _SHOWN for rank in ranks) / len(ranks)


def _mean(ranks: list[int]) -> float:
    return sum(1 / rank for rank in ranks if rank) / len(ranks)

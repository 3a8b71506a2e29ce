"""Reads pages with one method in a process of its own, one at a time as it is told, and says what each cost.

    python -m benchmarks.parts.web_worker trafilatura DIR

It runs in the Python that has the method's package, which has nothing else: no more than the standard library and what
is measured may be imported here.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.parts.web_truth import SAID, Known, agrees, f1, pages


def tidings(page: Known) -> str:
    from tidings.web.extract.pool import extract

    return extract(page.body, "text/html", page.url).text


def trafilatura(page: Known) -> str:
    import trafilatura as library

    return library.extract(page.body) or ""


def resiliparse(page: Known) -> str:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    return extract_plain_text(bytes_to_str(page.body, detect_encoding(page.body)), main_content=True, alt_texts=False)


def readability(page: Known) -> str:
    from lxml import html
    from readability import Document

    return str(html.fromstring(Document(page.body.decode("utf-8", "replace")).summary()).text_content())


def mcp_server_fetch(page: Known) -> str:
    from mcp_server_fetch.server import extract_content_from_html

    return str(extract_content_from_html(page.body.decode("utf-8", "replace")))


Said = tuple[str | None, str | None, str | None]


def tidings_metadata(page: Known) -> Said:
    from tidings.web.extract.pool import extract

    found = extract(page.body, "text/html", page.url)
    return found.title, found.author, found.published_at


def trafilatura_metadata(page: Known) -> Said:
    from trafilatura.metadata import extract_metadata

    found = extract_metadata(page.body, default_url=page.url)
    return found.title, found.author, found.date


METADATA: dict[str, Callable[[Known], Said]] = {"tidings": tidings_metadata, "trafilatura": trafilatura_metadata}
"""Title, author and date of publication, of the methods that find them."""

METHODS: dict[str, Callable[[Known], str]] = {
    "tidings": tidings,
    "trafilatura": trafilatura,
    "resiliparse": resiliparse,
    "readability-lxml": readability,
    "mcp-server-fetch": mcp_server_fetch,
}


class Worker:
    """One method, the pages, and what it held in memory before the first."""

    def __init__(self, method: str, home: Path) -> None:
        self._text, self._metadata = METHODS[method], METADATA.get(method)
        self._pages = pages(home)
        self._text(self._pages[0])  # what is imported and compiled at first is no part of a page's cost
        self._before = _held()

    def read(self, page: int) -> dict[str, Any]:
        known = self._pages[page]
        start = _spent()
        try:
            text = self._text(known)
        except Exception as error:  # noqa: BLE001 - a page a library fails on is a page without text
            print(f"failed on {known.id}: {error!r}", file=sys.stderr)
            text = ""
        answer = {"took": _spent() - start, "score": f1(text, known.content), "memory": _held() - self._before}
        # The time of metadata does not count: most methods find none.
        return {**answer, "said": self._said(known)}

    def _said(self, known: Known) -> dict[str, bool]:
        """What of the metadata that the page is known to state is right."""
        found = dict(zip(SAID, self._metadata(known), strict=True)) if self._metadata else {}
        return {key: agrees(key, found[key] or "", known.said[key]) for key in found if known.said.get(key)}


def _spent() -> float:
    """CPU seconds so far, those of programs that were called (one of the methods calls node) included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _held() -> float:
    """The most that was held so far, in MB."""
    both = (resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(both) / 1024


def _use(model: str) -> None:
    """Read with this model instead of the one of the package."""
    from tidings.web.extract.html import choose

    learned = choose.loaded(json.loads(Path(model).read_text("utf-8")))
    choose.model = lambda: learned  # pyright: ignore[reportAttributeAccessIssue]


def main(method: str, home: str, model: str = "") -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints cannot tear an answer
    try:
        if model and method == "tidings":
            _use(model)
        worker = Worker(method, Path(home))
    except Exception as error:  # noqa: BLE001 - it is not there, or does not work: the parent says so
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        return
    answers.write("{}\n")
    for line in sys.stdin:
        answers.write(json.dumps(worker.read(json.loads(line)["page"])) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

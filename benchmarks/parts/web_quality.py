"""How good is extraction, what does a page cost, and how much memory does it take: beside the libraries people use.

Each runs in a process of its own over the same pages. What counts is CPU time, parsing included, after a first page
that is not counted; and the most memory the process held above what it held before.
"""

import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.parts.web_truth import Known, Scores, pages, scores
from benchmarks.process import ProcessFailed
from benchmarks.report import Cell, Row, Target

OVERALL = Target(0.875, "least")
ARTICLES = Target(0.96, "least")
SPEED = Target(60, "least", "/s")
LIMIT = 1200


def tidings(page: Known) -> str:
    from tidings.web.extract import extract

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

    return str(html.fromstring(Document(page.body).summary()).text_content())


def mcp_server_fetch(page: Known) -> str:
    from mcp_server_fetch.server import extract_content_from_html

    return str(extract_content_from_html(page.body.decode("utf-8", "replace")))


METHODS: dict[str, tuple[str, Callable[[Known], str]]] = {
    "tidings": ("tidings.web.extract", tidings),
    "trafilatura": ("trafilatura", trafilatura),
    "resiliparse": ("resiliparse", resiliparse),
    "readability-lxml": ("readability", readability),
    "mcp-server-fetch": ("mcp_server_fetch", mcp_server_fetch),
}
"""By name: the module that must be there, and what gives the text of a page."""


def measure(home: Path) -> list[Row]:
    """The rows of everything that is installed; none, with a word, where there are no pages."""
    if not (home / "truth.jsonl").is_file():
        print(f"quality is not measured: there are no pages in {home}", file=sys.stderr)
        return []
    found: dict[str, dict[str, float]] = {}
    for name, (module, _) in METHODS.items():
        if _installed(module):
            found[name] = _run(name, home)
        else:
            print(f"{name} is left out: it is not installed", file=sys.stderr)
    return rows(found)


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _run(name: str, home: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.parts.web_quality", name, str(home)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise ProcessFailed(f"{name}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def rows(found: dict[str, dict[str, float]]) -> list[Row]:
    """One row for each figure; the model was fitted on these pages, so its own scores flatter and are not judged."""
    said = {
        "flat": "word F1, mean over pages",
        "mixed": "word F1, kinds mixed as on the web",
        **{kind: f"word F1, {kind} pages" for kind in sorted(set(found["tidings"]) - _OTHERS)},
        "speed": "pages a CPU second",
        "memory": "MB at most",
    }
    targets = {"speed": SPEED}
    made: list[Row] = []
    for key, what in said.items():
        others: dict[str, Cell] = {name: of[key] for name, of in found.items() if name != "tidings"}
        target = targets.get(key)
        value = found["tidings"][key]
        made.append(Row("quality", what, tidings=value, value=value if target else None, target=target, others=others))
    return made


_OTHERS = {"flat", "mixed", "speed", "memory"}


def one(name: str, home: Path) -> dict[str, float]:
    """Measure one method in this process."""
    known = pages(home)
    text = METHODS[name][1]
    text(known[0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = 0.0

    def timed(page: Known) -> str:
        nonlocal took
        start = time.process_time()
        try:
            return text(page)
        except Exception as error:  # noqa: BLE001 - a page a library fails on is a page without text
            print(f"{name} failed on {page.id}: {error!r}", file=sys.stderr)
            return ""
        finally:
            took += time.process_time() - start

    score: Scores = scores(known, timed)
    held = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"flat": score.flat, "mixed": score.mixed, **score.kinds, "speed": len(known) / took, "memory": held}


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1], Path(sys.argv[2]))))

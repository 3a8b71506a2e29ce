"""What users read: its links lead somewhere, its code blocks are tests (see conftest.py beside pyproject.toml), and it
becomes a site that is built strictly and loads nothing from elsewhere.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest

import tidings

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
pytestmark = pytest.mark.timeout(300)  # seconds: the site takes ten of CPU time, and a minute on a busy machine
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The page without its code, where what looks like a link is none."""
    return re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What can stand after `#` in a link to this page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ +(.*?) *$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """The links in `page` that lead to no file, or to no heading in one. Links to other hosts are not followed."""
    broken: list[str] = []
    for link in re.findall(r"\]\(<?([^)\s>]+)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@each_page
def test_each_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    assert not broken_links(page)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Here & now\n[a](#here--now) [b](page.md) [c](https://example.com) `[d](code.md)`\n"
        "[e](gone.md) [f](#gone) [g](page.md#gone)\n"
    )
    assert broken_links(page) == ["gone.md", "#gone", "page.md#gone"]


@each_page
def test_each_page_begins_with_its_title(page: Path) -> None:
    assert re.match(r"# \S", page.read_text("utf-8"))


@each_page
def test_a_code_block_that_is_not_run_says_why(page: Path) -> None:
    for comment in re.findall(r"<!--- ?skip.*?-->|<!-- ?skip.*?-->", page.read_text("utf-8")):
        assert re.fullmatch(r'<!-- skip: (next|start|end)( "[^"]+")? -->', comment), comment
        assert '"' in comment or "end" in comment, f"{comment} has no reason"


@each_page
def test_each_file_of_the_project_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|benchmarks|examples|docs|src)/[\w/.-]+\.\w+)`", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_measured_tables_of_the_comparison_are_those_of_the_benchmarks() -> None:
    check = [sys.executable, ROOT / "scripts/comparison", "--check"]
    run = subprocess.run(check, check=False, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert (ROOT / "docs/comparison.md").read_text("utf-8").count("| recorded on 20") == 8


def test_each_promise_names_its_tests() -> None:
    promises = re.split(r"^\*\*(?=\d)", (ROOT / "docs/promises.md").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert [promise.partition(".")[0] for promise in promises] == list("123456789")
    for promise in promises:
        tried = re.search(r"\*Tested in\*.*?(?=\n\n|\Z)", promise, re.DOTALL)
        assert tried, promise
        assert re.search(r"`tests/\w+/test_\w+\.py`", tried.group()), promise


class Built(NamedTuple):
    """What came of building a site."""

    code: int
    words: str
    folder: Path
    cpu: float


def build(source: Path, folder: Path) -> Built:
    """Build the site of `source` as `make docs` does."""
    if not find_spec("sphinx"):
        pytest.skip("Sphinx is not installed: requirements/dev.txt has it")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]
    before = os.times()
    # What is built is not what is measured: coverage of its imports would take most of the time.
    settings = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    run = subprocess.run([*command, source, folder], check=False, capture_output=True, text=True, env=settings)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Built(run.returncode, run.stdout + run.stderr, folder, cpu)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT / "docs", tmp_path_factory.mktemp("site"))


class Loading(HTMLParser):
    """Finds what a browser fetches when it shows a page: not what one may click on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names = {"link": ("href",), "a": (), "form": ("action",)}.get(tag, ("src", "srcset", "data", "poster", "href"))
        if tag == "link" and given.get("rel") in {"canonical", "index", "search", "next", "prev"}:
            return
        self.found += [value for name in names if (value := given.get(name))]


@pytest.mark.thorough
def test_the_site_is_built_without_a_warning_in_little_time(site: Built) -> None:
    assert (site.code, site.words) == (0, "")
    assert site.cpu < 30


@pytest.mark.thorough
def test_the_site_has_every_page(site: Built) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in ROOT.glob("docs/**/*.md")]
    assert len(pages) > 40
    assert [str(page) for page in pages if not (site.folder / page).exists()] == []


@pytest.mark.thorough
def test_models_find_each_page_in_one_file_with_a_sentence_about_it(site: Built) -> None:
    listed = dict(
        re.findall(r"^- \[.+\]\((.+?\.html)\)(?:: (.+))?$", (site.folder / "llms.txt").read_text("utf-8"), re.MULTILINE)
    )
    assert listed.keys() == {str(page.relative_to(site.folder)) for page in site.folder.rglob("*.html")} - {
        "genindex.html",
        "py-modindex.html",
        "search.html",
    }
    assert listed["waking.html"] == "A notification tells a client that a resource changed."
    assert [page for page, sentence in listed.items() if not sentence and not page.startswith("reference/")] == [
        "changelog.html"
    ]


@pytest.mark.thorough
def test_looking_at_the_site_fetches_nothing_from_elsewhere(site: Built) -> None:
    elsewhere = re.compile(r"\s*(?:[a-z]+:)?//", re.IGNORECASE)
    for page in site.folder.rglob("*.html"):
        loading = Loading()
        loading.feed(page.read_text("utf-8"))
        assert [address for address in loading.found if elsewhere.match(address)] == [], page.name
    for style in site.folder.rglob("*.css"):
        fetched = re.findall(r"""(?:@import\s+|url\()\s*["']?([^"')\s]+)""", style.read_text("utf-8"))
        assert [address for address in fetched if elsewhere.match(address)] == [], style.name


@pytest.mark.parametrize("name", tidings.__all__)
@pytest.mark.thorough
def test_the_reference_has_each_public_name(site: Built, name: str) -> None:
    text = re.sub(r"<[^>]+>", "", (site.folder / "reference/tidings.html").read_text("utf-8"))
    assert name == "__version__" or re.search(rf"\b{name}\b", text)


@pytest.mark.thorough
def test_docstrings_are_read_as_the_markdown_that_they_are(site: Built) -> None:
    buses = (site.folder / "reference/bus.html").read_text("utf-8")
    assert "<table" in buses
    assert "|---|" not in buses
    assert "<li><p>A change for which <code" in buses  # a list that follows a line of text
    # A colon in the sentence about an attribute does not end its type.
    assert not [page for page in site.folder.glob("reference/*.html") if "Type<span" in page.read_text("utf-8")]


def test_a_link_that_leads_nowhere_stops_the_building_of_the_site(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs/conf.py", tmp_path)
    links = ["gone.md", "other.md#gone-there", "#gone-here"]
    text = "".join(f"[there]({link})\n" for link in links)
    (tmp_path / "index.md").write_text(f"# Here\n\n{text}\n```{{toctree}}\nother\n```\n")
    (tmp_path / "other.md").write_text("# Other\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.code != 0
    assert built.words.count("WARNING") == 3
    assert all(link.removesuffix(".md") in built.words for link in ["gone.md", "gone-there", "gone-here"])

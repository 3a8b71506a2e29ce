"""What users read: its links lead somewhere, and its code blocks are tests (see conftest.py beside pyproject.toml)."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
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

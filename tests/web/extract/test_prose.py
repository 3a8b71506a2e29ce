"""Markdown, kept."""

import pytest

from tidings.web.extract.dispatch import extract
from tidings.web.extract.model import Caps, Extracted, ExtractOptions

URL = "https://harbour.example/docs/winter"


def read(text: str, **caps: int) -> Extracted:
    return extract(text.encode(), "text/markdown", URL, ExtractOptions(caps=Caps(**caps)))


def test_markdown_is_kept_and_its_words_are_known() -> None:
    text = (
        "# The *winter*\n\nBoats **lie** still, see [the log](/log) and `code`.\n\n"
        "- one\n- two\n\n> said\n\n```py\n# no heading\n```\n\n![a picture](/p.png) <b>bold</b>"
    )
    found = read(text)
    assert found.markdown == text
    assert found.text == (
        "The winter\n\nBoats lie still, see the log and code.\n\n- one\n- two\n\nsaid\n\n# no heading\n\na picture bold"
    )
    assert (found.kind, found.method, found.title, found.empty) == ("document", "markdown", "The winter", None)
    assert [(link.text, link.url) for link in found.links] == [("the log", "https://harbour.example/log")]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Some words\n\n## Second ##\n", "Second"),
        ("Title\n=====\n\n# Other", "Title"),
        ("```\n# code\n```\n# True", "True"),
        ("~~~~\n# code\n~~~\n# code\n~~~~\n# True", "True"),
        ("Word\n```\n====\n```", None),
        ("#\n\ntext", None),
        ("no heading", None),
    ],
)
def test_the_title_is_the_first_heading(text: str, title: str | None) -> None:
    assert read(text).title == title


def test_front_matter_is_known_and_kept_as_code() -> None:
    found = read(
        '---\ntitle: "Winter"\nauthor: Ada Brook\ndate: 2024-01-01\nlastmod: 2024-02-01\nlang: en\n'
        "description: Cold.\ncanonical: /winter\ntags: [a, b]\n---\n\n# Heading\n"
    )
    assert (found.title, found.author, found.description, found.language) == ("Winter", "Ada Brook", "Cold.", "en")
    assert (found.published_at, found.modified_at) == ("2024-01-01", "2024-02-01")
    assert found.canonical_url == "https://harbour.example/winter"
    assert found.markdown.startswith('```yaml\ntitle: "Winter"')
    assert found.markdown.endswith("```\n\n# Heading")


def test_other_front_matter_is_understood_too() -> None:
    found = read("+++\ntitle = 'Winter'\nauthors = ['Ada Brook']\nupdated = null\n+++\ntext")
    assert (found.title, found.author, found.modified_at) == ("Winter", "Ada Brook", None)
    assert found.markdown.startswith("```toml\n")
    assert read("---\n\n---\ntext").markdown == "text"


def test_a_line_is_no_front_matter() -> None:
    assert read("---\nnever ends").markdown == "---\nnever ends"


def test_comments_are_told_of_and_not_kept() -> None:
    found = read("Before <!-- ignore\nall that --> after\n\n```html\n<!-- kept -->\n```\n<!-- -->\n<!-- open")
    assert found.hidden == ("ignore all that",)
    assert "ignore" not in found.markdown
    assert "<!-- kept -->" in found.markdown
    assert found.markdown.endswith("<!-- open")


def test_links_within_the_page_are_no_links() -> None:
    assert (
        read("[up](#top) [mail](mailto:a@b.example) [x](<https://e.example/a>)").links[0].url == "https://e.example/a"
    )
    assert len(read("[up](#top) [mail](mailto:a@b.example)").links) == 0


@pytest.mark.parametrize(
    "text", ["", "\n \n", "\N{ZERO WIDTH NO-BREAK SPACE}", "<!-- nothing else -->", "**", "```\n```"]
)
def test_a_text_without_words_is_empty(text: str) -> None:
    assert read(text).empty == "empty"


def test_text_without_end_is_cut_with_a_warning() -> None:
    found = read("word\n" * 1_000, characters=100)
    assert len(found.markdown) <= 100
    assert found.warnings[0].type == "truncated"


@pytest.mark.parametrize("piece", ["<!--", "[", "[a](", "![", "<a ", "`", "**", "---\n", "> ", "[a]" * 3, "*_`["])
def test_marks_without_end_are_read_in_time(piece: str) -> None:
    assert read(piece * 100_000).method == "markdown"

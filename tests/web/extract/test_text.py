"""Plain text, code and Markdown."""

import pytest

from tidings.web.extract.model import Caps, Extracted, ExtractOptions
from tidings.web.extract.pool import extract

URL = "https://harbour.example/notes"


def test_text_is_given_as_it_is() -> None:
    found = extract(b"\n  Indented\r\nlines\rand\x07 more\x0cpage\n\n", "text/plain", URL)
    assert found.text == "  Indented\nlines\nand more\npage"
    assert (found.kind, found.method, found.markdown, found.title) == ("text", "text", found.text, None)


def test_nothing_in_plain_text_is_a_heading() -> None:
    assert extract(b"# a comment\nUser-agent: *\n", "text/plain", URL).markdown == "\\# a comment\nUser-agent: *"


@pytest.mark.parametrize(
    ("kind", "url", "language"),
    [
        ("text/x-python", "https://harbour.example/a.py", "python"),
        ("text/css", "https://harbour.example/a.css?x=1", "css"),
        ("application/javascript", "https://harbour.example/script", ""),
        ("text/calendar", "https://harbour.example/a.;drop", ""),
        ("text/whatever", "http://[broken", ""),
    ],
)
def test_code_is_a_block_of_code(kind: str, url: str, language: str) -> None:
    found = extract(b"a = '```'\n", kind, url)
    assert found.markdown == f"````{language}\na = '```'\n````"
    assert found.text == "a = '```'"


@pytest.mark.parametrize("kind", ["text/plain", "text/css"])
@pytest.mark.parametrize("body", [b"", b" \n\t", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_no_text_is_empty(body: bytes, kind: str) -> None:
    found = extract(body, kind, URL)
    assert (found.empty, found.text, found.markdown) == ("empty", "", "")


def test_text_without_end_is_cut_at_a_line_with_a_warning() -> None:
    found = extract(b"word\n" * 1_000, "text/plain", URL, ExtractOptions(caps=Caps(characters=102)))
    assert found.text == "word\n" * 19 + "word"
    assert "4,999 characters: the first 99 are given, 4,900 are left out" in found.warnings[0].message


def test_a_line_without_end_is_cut_where_it_must_be() -> None:
    found = extract(b"x" * 10_000_000, "text/plain", URL)
    assert len(found.text) == 2_000_000
    assert found.warnings[0].type == "truncated"


MARKDOWN_URL = "https://harbour.example/docs/winter"


def read(text: str, **caps: int) -> Extracted:
    return extract(text.encode(), "text/markdown", MARKDOWN_URL, ExtractOptions(caps=Caps(**caps)))


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
        '---\ntitle: "Winter"\nauthor: Ada Brook\ndate: 2024-01-01\nlang: en\n'
        "description: Cold.\ncanonical: /winter\ntags: [a, b]\n---\n\n# Heading\n"
    )
    assert (found.title, found.author, found.description, found.language) == ("Winter", "Ada Brook", "Cold.", "en")
    assert found.published_at == "2024-01-01"
    assert found.canonical_url == "https://harbour.example/winter"
    assert found.markdown.startswith('```yaml\ntitle: "Winter"')
    assert found.markdown.endswith("```\n\n# Heading")


def test_other_front_matter_is_understood_too() -> None:
    found = read("+++\ntitle = 'Winter'\nauthors = ['Ada Brook']\ndate = null\n+++\ntext")
    assert (found.title, found.author, found.published_at) == ("Winter", "Ada Brook", None)
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


def test_links_are_their_words_in_the_text() -> None:
    assert read("[up](#top) [mail](mailto:a@b.example) [x](<https://e.example/a>)").text == "up mail x"


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
    assert read(piece * 50_000).method == "markdown"

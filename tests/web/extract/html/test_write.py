"""Blocks as Markdown."""

import pytest

from tidings.web.extract.html.page import read_page
from tidings.web.extract.html.write import MarkdownWriter
from tidings.web.extract.model import ExtractOptions

URL = "https://harbour.example/a/"


def written(body: str, **options: bool) -> str:
    page = read_page(f"<body>{body}</body>".encode(), URL)
    return MarkdownWriter(page.base, ExtractOptions(**options)).write(page.blocks.blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "markdown"),
    [
        ("<h1>One</h1><p>two</p><h3><span>Three</span></h3>", "# One\n\ntwo\n\n### Three"),
        ("<p>a\n  b<br>c</p>", "a b\nc"),
        ("<p>a <b>bold</b>, <em>thin</em> and <code>x*y</code></p>", "a **bold**, *thin* and `x*y`"),
        ("<p>a <b> spaced </b> b <i></i></p>", "a **spaced** b"),
        ("<p><code>a`b</code></p>", "``a`b``"),
        ("<p><b>a <strong>b</strong></b> <i>c <em>d</em></i></p>", "a **b** c *d*"),
        ("<p>see <a href='../x y'>the <b>other</b> page</a></p>", "see [the **other** page](https://harbour.example/x%20y)"),
        ("<p>see <a href='javascript:x'>this</a>, <a href='#up'>that</a> and <a>it</a></p>", "see this, that and it"),
        ("<h2>Head<a href='#head'>¶</a></h2>", "## Head"),
        ("<p>look <img src=/i.png alt='a [map]'> here</p>", "look ![a \\[map\\]](https://harbour.example/i.png) here"),
        ("<p>no <img src=/i.png> alt</p>", "no alt"),
        ("<p>1. not a list</p><p># nor a heading *</p>", "\\1. not a list\n\n\\# nor a heading \\*"),
        ("<ul><li>one</li><li>two<ul><li>deep</li></ul></li></ul><p>end</p>", "- one\n- two\n  - deep\n\nend"),
        ("<ol start=3><li>c</li><li>d<br>e</li></ol>", "3. c\n4. d\n   e"),
        ("<ul><li><p>one</p><p>more</p></li></ul>", "- one\n  more"),
        ("<blockquote><p>said<br>so</p></blockquote>", "> said\n> so"),
        ("<dl><dt>term</dt><dd>meaning</dd><dt><b>b</b></dt></dl>", "**term**\n\nmeaning\n\n**b**"),
        ("<a href=/x><h3>Card</h3><p>text</p></a>", "### [Card](https://harbour.example/x)\n\n[text](https://harbour.example/x)"),
    ],
)  # fmt: skip
def test_blocks_become_markdown(body: str, markdown: str) -> None:
    assert written(body) == markdown


@pytest.mark.parametrize(
    ("body", "language"),
    [
        ("<pre><code class='language-python'>{}</code></pre>", "python"),
        ("<pre class='brush: js'>{}</pre>", "js"),
        ("<div class='highlight-source-rust'><pre>{}</pre></div>", "rust"),
        ("<pre data-lang='go'>{}</pre>", "go"),
        ("<pre data-lang=' '>{}</pre>", ""),
        ("<pre>{}</pre>", ""),
    ],
)
def test_code_keeps_its_lines_and_its_language(body: str, language: str) -> None:
    code = "if x:\n    <b>y</b>  = *1*\n\n\n\n    z"
    assert written(body.format(code)) == f"```{language}\nif x:\n    y  = *1*\n\n\n\n    z\n```"


def test_code_with_fences_in_it_has_a_longer_one() -> None:
    assert written("<pre>```\nx\n```</pre>") == "````\n```\nx\n```\n````"


def test_code_can_be_left_out() -> None:
    assert written("<p>a</p><pre>b</pre><p>c</p>", keep_code_blocks=False) == "a\n\nc"


TABLE = "<table><tr><th>Name<th>Size</tr><tr><td><a href=/b>b|c</a><td><p>1</p><p>2</p></tr><tr><td>d</tr></table>"


def test_a_table_is_a_table() -> None:
    assert written(TABLE) == ("| Name | Size |\n| --- | --- |\n| [b\\|c](https://harbour.example/b) | 1 2 |\n| d |  |")


def test_tables_can_be_flattened() -> None:
    assert written(TABLE, keep_tables=False).splitlines()[0] == "Name, Size"


def test_a_table_for_layout_is_what_it_holds() -> None:
    assert written("<table><tr><td><p>one</p></td></tr><tr><td>two</td></tr></table>") == "one\n\ntwo"
    assert written("<table><tr><td><table><tr><td>a<td>b</tr><tr><td>c<td>d</tr></table></table>") == "a\n\nb\n\nc\n\nd"


def test_links_lead_where_the_page_says_that_it_is() -> None:
    page = read_page(b"<base href='/deep/'><p><a href=x>one</a> <a href='x'>one</a> <a href=mailto:a@b>no</a></p>", URL)
    writer = MarkdownWriter(page.base, ExtractOptions())
    link = "[one](https://harbour.example/deep/x)"
    assert writer.write(page.blocks.blocks) == f"{link} {link} no"


def test_marks_that_cross_are_closed_in_order() -> None:
    assert written("<p><a href=x>one<p>two <b>three</a> four</b></p>").count("](https://harbour.example/a/x)") == 2


def test_what_has_no_text_of_its_own_leaves_no_gap() -> None:
    assert written("<p>a</p><h2><a href='#a'>¶</a></h2><p>b</p>") == "a\n\nb"

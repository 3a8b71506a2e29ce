"""Pages to extract from, each written out of parts."""

SENTENCES = (
    "The ferry leaves the old harbour at seven in the morning and returns when the tide allows it, never before noon.",
    "Nobody on the island remembers who built the first lighthouse, but everybody knows the name of its last keeper.",
    "In winter, when storms close the strait for days, letters pile up in the post office beside the chandlery.",
    "The museum, which opened two years ago in a former boathouse, shows charts, ropes, lamps and a restored engine.",
    "Visitors are asked to book a place in advance, because the boat takes only twelve passengers and two bicycles.",
    "A path of four kilometres leads around the cliffs, past three beaches and a meadow full of orchids in June.",
)
MENU = "<nav class='main-nav'><ul>" + "".join(
    f"<li><a href='/{word}'>{word.title()}</a></li>" for word in ("home", "shop", "about", "contact", "imprint")
) + "</ul></nav>"  # fmt: skip
FOOTER = """<footer class="site-footer"><p>© 2024 Harbour Times. All rights reserved.</p>
<a href="/privacy">Privacy Policy</a> <a href="/terms">Terms</a></footer>"""


def paragraphs(times: int = 2) -> str:
    return "".join(f"<p>{sentence} {sentence}</p>" for sentence in SENTENCES * times)


def page(content: str, head: str = "", title: str = "Sample") -> bytes:
    """A whole page around `content`, with a menu above it and a footer below."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>{head}</head>"
        f"<body><header class='site-header'>{MENU}</header>{content}{FOOTER}</body></html>"
    ).encode()


def article(inner: str = "", head: str = "") -> bytes:
    """An article with `inner` in its middle."""
    return page(
        f"<main><article class='post'><h1>The island in winter</h1><div class='entry-content'>{paragraphs()}{inner}"
        f"{paragraphs()}</div></article></main>",
        f"<meta property='og:type' content='article'>{head}",
        "The island in winter",
    )

"""Plain text, code and Markdown.

Markdown stays as it is. Its front matter and first heading give the metadata. Front matter becomes a code block,
because its dashes would turn its last line into a heading. Comments, which no Markdown reader shows, go to
`Extracted.hidden`.
"""

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from tidings.web.extract.html.page import iso_date, web_address
from tidings.web.extract.model import Extracted, ExtractOptions, bounded, fenced
from tidings.web.extract.sniff import as_text, file_ending

_HEADING = re.compile(r"^(\s{0,3})(#{1,6}\s)", re.MULTILINE)
_UNSEEN = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_LANGUAGES = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript", ".rs": "rust",
              ".rb": "ruby", ".sh": "bash", ".yml": "yaml", ".h": "c", ".cc": "cpp", ".hpp": "cpp"}  # fmt: skip


def read_text(body: bytes, charset: str | None, _url: str, options: ExtractOptions) -> Extracted:
    """Reads prose without markup; lines that look like headings are escaped."""
    return _unmarked(body, charset, options, lambda text: _HEADING.sub(r"\1\\\2", text))


def read_code(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads text that is not prose as one code block."""
    ending = file_ending(url)
    language = _LANGUAGES.get(ending, ending[1:] if re.fullmatch(r"\.[a-z0-9+#-]{1,12}", ending) else "")
    return _unmarked(body, charset, options, lambda text: fenced(text, language) if text else "")


def _unmarked(body: bytes, charset: str | None, options: ExtractOptions, write: Callable[[str], str]) -> Extracted:
    text = _UNSEEN.sub("", as_text(body, charset).replace("\f", "\n"))
    # The indentation of the first line stays: it may belong to a figure.
    text = text.rstrip().lstrip("\n\N{ZERO WIDTH NO-BREAK SPACE}") if text.strip() else ""
    text, warnings = bounded(text, options.caps.characters, "the text")
    return Extracted("text", "text", write(text), text, warnings=warnings, empty=None if text else "empty")


_FRONT: Final = re.compile(r"(---|\+\+\+)[ \t]*\n(.{0,50000}?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD: Final = re.compile(r"^([A-Za-z][\w.-]{0,60})\s*[:=]\s*(.*?)\s*$", re.MULTILINE)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_PROSE_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_UNDERLINE: Final = re.compile(r" {0,3}=+\s*$")
_IMAGE: Final = re.compile(r"!\[([^\[\]]{0,1000})\]\([^()\s]{0,2000}(?:\s[^()]{0,500})?\)")
_LINK: Final = re.compile(
    r"\[([^\[\]]{1,1000})\]\(\s*<?([^()\s<>]{1,2000}(?:\([^()\s]{0,200}\)[^()\s<>]{0,500})?)>?(?:\s[^()]{0,500})?\)"
)
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>")
_MARKS: Final = re.compile(r"(?<!\\)(\*\*\*|\*\*|___|__|\*|`+)(?=\S)|(?<=\S)(?<!\\)(\*\*\*|\*\*|___|__|\*|`+)")
_LINE: Final = re.compile(r"^(?: {0,3}#{1,6}\s+|\s*>+ ?)(.*?)(?:\s+#+)?$")
_HIDDEN: Final = 50


def read_markdown(body: bytes, charset: str | None, url: str, options: ExtractOptions) -> Extracted:
    """Reads Markdown."""
    whole = as_text(body, charset).lstrip("\N{ZERO WIDTH NO-BREAK SPACE}\n")
    front = _FRONT.match(whole)
    fields: dict[str, str] = {}  # The plain ones, not the nested ones.
    for key, value in _FIELD.findall(front[2]) if front else ():
        bare = value.strip("[]").strip().strip("\"'").strip()
        if bare and bare not in {"|", ">", "null", "~"}:
            fields.setdefault(key.lower(), " ".join(bare.split())[:500])
    hidden: list[str] = []
    rest = "\n".join(_shown(whole[front.end() :] if front else whole, hidden)).strip("\n").rstrip()
    title = fields.get("title") or _title(rest)
    if front and front[2].strip():
        rest = f"{fenced(front[2].strip(), 'yaml' if front[1] == '---' else 'toml')}\n\n{rest}".rstrip()
    markdown, warnings = bounded(rest, options.caps.characters, "the text")
    text = plain_markdown(markdown)
    return Extracted(
        kind="document",
        method="markdown",
        markdown=markdown,
        text=text,
        title=" ".join(plain_markdown(title).split())[:500] or None if title else None,
        author=fields.get("author") or fields.get("authors") or None,
        published_at=iso_date(fields.get("date") or fields.get("published") or ""),
        language=fields.get("lang") or fields.get("language") or None,
        description=fields.get("description") or fields.get("summary") or None,
        canonical_url=web_address(url, fields["canonical"]) if fields.get("canonical") else None,
        warnings=warnings,
        hidden=tuple(hidden[:_HIDDEN]),
        empty=None if text.strip() else "empty",
    )


def _shown(markdown: str, hidden: list[str]) -> Iterator[str]:
    """Yields the text between code blocks without comments, which go to `hidden`, and the code as it is."""
    for code, group in groupby(_lines(markdown), key=itemgetter(1)):
        text, kept, at = "\n".join(line for line, _ in group), "", 0
        while not code and (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
            kept += text[at:begin]
            if said := " ".join(text[begin + 4 : end].split()):
                hidden.append(said[:2_000])
            at = end + 3
        yield kept + text[at:]


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each line and whether it belongs to a code block."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        yield line, bool(fence or found)
        if not fence:
            fence = found[1] if found else ""
        elif found and found[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""


def _title(text: str) -> str | None:
    before = ""
    for line, code in _lines(text):
        heading = None if code else _PROSE_HEADING.match(line)
        if heading and heading[1]:
            return heading[1]
        if before and not code and _UNDERLINE.match(line):
            return before
        before = "" if code else line.strip()
    return None


def plain_markdown(text: str) -> str:
    """Returns the text of Markdown without its markup."""
    out: list[str] = []
    for line, code in _lines(text):
        if not code:
            found = _LINE.match(line)
            bare = _LINK.sub(r"\1", _IMAGE.sub(r"\1", found[1] if found else line))
            out.append(_MARKS.sub("", _TAG.sub("", bare)))
        elif not _FENCE.match(line):
            out.append(line)
    return "\n".join(out).strip("\n")

"""The configuration of the documentation site, which `make docs` builds into build/docs.

The build is strict: every warning and every broken link is an error. Neither the build nor the site fetches anything,
such as web fonts or scripts from other hosts (tests/test_docs.py checks this).
"""

import re
from pathlib import Path
from typing import Any

from tidings import __version__

project = "Tidings"
copyright = "The Tidings authors"  # noqa: A001 - Sphinx's name for it
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}

# The same heading anchors as on GitHub, so that a link works in both places.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Tidings {__version__}"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b7a68", "color-brand-content": "#0b7a68"},
    "dark_css_variables": {"color-brand-primary": "#3fc1a8", "color-brand-content": "#3fc1a8"},
}
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False

# The reference is generated from the docstrings, in the order of the source.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
add_module_names = False

# Docstrings are markdown: a word in `backticks` is code, and a link if the reference contains the name.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # see above: code that is not a name of Tidings
    ("py:.*", r"(?!tidings\.).*"),  # names of other packages: nothing is fetched, so they cannot be linked
    ("py:class", r"tidings\..*T"),  # type variables
    ("py:class", r"tidings\.client\.cache\.Kind"),  # one of four classes, which its functions name
    ("py:class", r"tidings\.client\.targets\..*"),  # the parsed form of a target, which `connect` describes
    ("py:class", r"tidings\.inspector\.catalog\..*"),  # an entry of the catalog, which its file describes
    ("py:class", r"tidings\.server\.waking\.changes\.ChangedItem"),  # an item of the tool `changes`
    ("py:class", r"tidings\.web\.(library|store|watch)\..*"),  # behind `WebServer`: its properties say what for
]


COLON = "\ue000"  # stands for a colon that napoleon would take for the end of an attribute's type


def from_markdown(_app: Any, what: str, _name: str, _it: Any, _options: Any, lines: list[str]) -> None:
    """Converts a docstring to reStructuredText where markdown differs: code, lists and tables."""
    text = re.sub(r"(?<!`)`([^`\n]+)`(\w?)", _code, "\n".join(lines))
    text = re.sub(r"^May import: .*(?:\n.+)*", "", text, flags=re.MULTILINE)  # for contributors only
    text = re.sub(r"^(\S.*)\n\n(?= {4})", r"\1\n\n::\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^((?!- |  )\S.*)\n(?=- )", r"\1\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"(?:^\|.*\|(?:\n|\Z))+", lambda found: _table(found.group()), text, flags=re.MULTILINE)
    lines[:] = text.split("\n")
    if what in ("attribute", "data", "property"):
        lines[0] = lines[0].replace(":", COLON)


def with_colons(_app: Any, _what: str, _name: str, _it: Any, _options: Any, lines: list[str]) -> None:
    """Puts back the colons that `from_markdown` hid from napoleon."""
    lines[:] = [line.replace(COLON, ":") for line in lines]


def _code(found: re.Match[str]) -> str:
    code, following = found.groups()
    quoted = f"``{code}``" if ":" in code else f"`{code}`"  # napoleon splits at a colon outside a literal
    return f"{quoted}\\ {following}" if following else quoted


def _table(markdown: str) -> str:
    rows = [re.split(r"(?<!\\)\|", line.strip("|")) for line in markdown.strip().split("\n")]
    made = [".. list-table::", "   :header-rows: 1", ""]
    for row in [rows[0], *rows[2:]]:
        made += [f"   {'*' if not place else ' '} - {cell.strip()}" for place, cell in enumerate(row)]
    return "\n".join([*made, "", ""])


def write_llms_txt(app: Any, failure: Exception | None) -> None:
    """Writes `llms.txt`, a list of the pages for models: each with its title and its first sentence."""
    if failure is not None or app.builder.name != "html":
        return
    pages = sorted(app.env.found_docs, key=lambda page: ("/" in page, page))
    lines = [f"# {project}", "", "> Live MCP for Python: when something changes, your agent knows.", "", "## Docs", ""]
    for page in pages:
        if "## Optional" not in lines and "/" in page:
            lines += ["", "## Optional", ""]
        text = re.sub(
            r"^```.*?^```", "", Path(app.env.doc2path(page)).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        title, first = (
            re.search(r"^# (.+)$", text, re.MULTILINE),
            re.search(r"\n\n([A-Z`*[].+?[.:])\s", text, re.DOTALL),
        )
        sentence = re.sub(r"\[([^]]+)\]\([^)]+\)|[*`]", r"\1", " ".join(first[1].split())) if first else ""
        lines.append(f"- [{title[1] if title else page}]({page}.html): {sentence}".rstrip(": "))
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def setup(app: Any) -> None:
    """Connects the functions above. Sphinx calls this function."""
    app.connect("autodoc-process-docstring", from_markdown, priority=100)  # before napoleon
    app.connect("autodoc-process-docstring", with_colons, priority=900)  # after napoleon
    app.connect("build-finished", write_llms_txt)

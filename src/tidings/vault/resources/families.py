"""The kinds of resources that a vault has, and what may be asked of each.

May import: nothing of Tidings.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_JSON: Final = "application/json"
_LIST: Final = ("mode", "limit", "offset")


class Family(NamedTuple):
    """The resources of one kind."""

    kind: str
    about: str
    """The template's expression for what such a URI is about; empty if there is only one resource of this kind."""
    title: str
    description: str
    mime_type: str | None
    """None if it differs."""
    takes: tuple[str, ...]
    """What may stand in the query."""
    limit: int | None
    """How many items a page has if nobody says. None: all."""

    @property
    def template(self) -> str:
        """The URI template of all of them."""
        return f"{self.bare}{'{?' + ','.join(self.takes) + '}' if self.takes else ''}"

    @property
    def bare(self) -> str:
        """The template without the query; the URI itself if there is only one."""
        return f"vault://{self.kind}{'/' if self.about else ''}{self.about}"

    @property
    def shown(self) -> str:
        """How to write one, for a message: nobody has to know the signs of templates."""
        return self.bare.replace("{+", "{")


FAMILIES: Final[Mapping[str, Family]] = {
    family.kind: family
    for family in (
        Family(
            "recent",
            "",
            "Recently changed notes",
            "The notes, canvases and bases that were changed last, newest first.",
            _JSON,
            _LIST,
            20,
        ),
        Family(
            "stats",
            "",
            "Statistics",
            "How many notes, folders, attachments, tags, links and tasks the vault has.",
            _JSON,
            ("mode",),
            None,
        ),
        Family(
            "tags",
            "",
            "Tags",
            "All tags, with the number of notes that have each.",
            _JSON,
            _LIST,
            200,
        ),
        Family(
            "structure",
            "",
            "Folders",
            "The tree of folders with the number of notes in each; three levels, or all of them and the notes' names "
            "with mode=full.",
            _JSON,
            _LIST,
            200,
        ),
        Family(
            "note",
            "{+path}",
            "Note",
            "A note's text, or some of its lines (offset, limit); with mode=summary its title, properties, headings, "
            "tags, links, tasks, size and version. The path may lack '.md' or be the note's bare name.",
            None,
            _LIST,
            None,
        ),
        Family(
            "folder",
            "{+path}",
            "Folder",
            "What a folder holds: its folders, then its notes and other files.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "tag",
            "{+tag}",
            "Notes with a tag",
            "The notes that have a tag, or one nested in it.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "backlinks",
            "{+path}",
            "Backlinks",
            "The links that lead to a note or another file, with their lines.",
            _JSON,
            _LIST,
            100,
        ),
        Family(
            "search",
            "{query}",
            "Search",
            'What a search finds, newest first. Takes Obsidian\'s search syntax: words, "a phrase", tag:, path:, '
            "file:, [property:value], -not, OR.",
            _JSON,
            _LIST,
            20,
        ),
        Family(
            "daily",
            "{date}",
            "Daily note",
            "The daily note of a date such as 2026-01-31, or of 'today'; as a note otherwise.",
            None,
            _LIST,
            None,
        ),
        Family(
            "attachment",
            "{+path}",
            "Attachment",
            "An image, a PDF or another file, as it is; canvases and bases as text.",
            None,
            (),
            None,
        ),
    )
}

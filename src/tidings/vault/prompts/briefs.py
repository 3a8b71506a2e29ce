"""What the prompts have in common: texts, notes that are brought along, notes that are pointed at."""

from collections.abc import Iterable
from datetime import date
from typing import Final

from mcp_types import ContentBlock, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from tidings.vault.files.paths import uri
from tidings.vault.index.query_rows import FileRow
from tidings.vault.resources.addresses import parse_address
from tidings.vault.resources.mime import MARKDOWN
from tidings.vault.resources.standings import standing
from tidings.vault.view import View

NOTE_ROOM: Final = 8000
"""How many characters of a note are brought along."""


def told(view: View, *paragraphs: str) -> ContentBlock:
    """A text, and a word of warning if the index may lack something."""
    return TextContent(type="text", text="\n\n".join(filter(None, [*paragraphs, standing(view.status)])))


def brought(view: View, file: FileRow, room: int = NOTE_ROOM) -> ContentBlock:
    """A note's text, as much of it as there is room for."""
    text = view.queries.text(file.path) or ""
    if len(text) > room:
        text = f"{text[:room]}\n\n[{len(text) - room:,} more characters: read the resource.]"
    return EmbeddedResource(
        type="resource", resource=TextResourceContents(uri=uri("note", file.path), mime_type=MARKDOWN, text=text)
    )


def pointed(file: FileRow) -> ContentBlock:
    """A note to read if need be."""
    return ResourceLink(
        type="resource_link",
        name=file.path,
        uri=uri("note", file.path),
        title=file.title,
        mime_type=MARKDOWN,
        size=file.size,
    )


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {line}" for line in lines)


def day_of(text: str, today: date) -> date:
    """A date, as a prompt's argument has it.

    Raises:
        BadAddress: It is none.
    """
    day = parse_address(uri("daily", text.strip() or "today")).argument
    return today if day == "today" else date.fromisoformat(day)

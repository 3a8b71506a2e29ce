"""What `resources/list` and `resources/templates/list` say of a vault.

First the resources of which there is one, then every file, in the order of the paths. A page begins after the path that
the cursor names, so pages neither repeat nor skip a file that stays, however many others come and go in between.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from mcp_types import Annotations, Resource, ResourceTemplate

from tidings.vault.files.paths import uri
from tidings.vault.resources.families import FAMILIES
from tidings.vault.resources.mime import MARKDOWN, mime_type
from tidings.vault.resources.shapes import iso
from tidings.vault.view import View

PAGE: Final = 500

_PRIORITY: Final = {"note": 0.5, "canvas": 0.4, "base": 0.4, "attachment": 0.2}

STATIC: Final = tuple(
    Resource(
        name=family.kind,
        uri=family.bare,
        title=family.title,
        description=family.description,
        mime_type=family.mime_type,
        annotations=Annotations(priority=0.8),
    )
    for family in FAMILIES.values()
    if not family.about
)
"""The resources of which there is one."""


class BadCursor(ValueError):
    """A cursor is none that a page gave."""


def templates() -> list[ResourceTemplate]:
    """How the URIs of all resources are made, with what may be asked of each."""
    return [
        ResourceTemplate(
            name=family.kind,
            uri_template=family.template,
            title=family.title,
            description=family.description,
            mime_type=family.mime_type,
        )
        for family in FAMILIES.values()
    ]


def page(view: View, cursor: str | None) -> tuple[list[Resource], str | None]:
    """The resources after `cursor`, or the first ones, and the cursor of the next page if there is one.

    Raises:
        BadCursor: No page gave that cursor.
    """
    first = [] if cursor else list(STATIC)
    room = PAGE - len(first)
    rows: list[tuple[str, str, str, int, int]] = view.queries.connection.execute(
        "SELECT path, kind, title, size, mtime FROM files WHERE path > ? ORDER BY path LIMIT ?",
        (_path(cursor) if cursor else "", room + 1),
    ).fetchall()
    resources = first + [resource(*row) for row in rows[:room]]
    return resources, _cursor(rows[room - 1][0]) if len(rows) > room else None


def resource(path: str, kind: str, title: str, size: int, mtime: int) -> Resource:
    """How a file of the vault is listed."""
    return Resource(
        name=path,
        uri=uri("note" if kind == "note" else "attachment", path),
        title=title,
        mime_type=MARKDOWN if kind == "note" else mime_type(path),
        size=size,
        annotations=Annotations(priority=_PRIORITY[kind], last_modified=iso(mtime)),
    )


def _cursor(path: str) -> str:
    return urlsafe_b64encode(path.encode()).decode()


def _path(cursor: str) -> str:
    try:
        path = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        path = ""
    # Whatever is left out of account when decoding was not in a cursor of ours.
    if not path or _cursor(path) != cursor:
        raise BadCursor("This cursor is none that the list gave. Begin again without one.")
    return path

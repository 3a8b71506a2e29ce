"""Resources that a server finds when it is asked: a folder of notes, a table, a shop.

They are too many to be registered, and they come and go.

`LiveServer.provide(provider)` serves them beside what is registered: in `resources/list`, page by page, among the
templates, and for reading and subscribing.
"""

from collections.abc import Sequence
from typing import Protocol

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp_types import Resource, ResourceTemplate


class ResourceProvider(Protocol):
    """Where such resources come from."""

    def owns(self, uri: str) -> bool:
        """Whether this URI, or prefix ending in `*`, is one of the provider's, so that it may be subscribed to.

        What is not there yet may be among them: its subscribers hear when it is.
        """
        ...

    def templates(self) -> Sequence[ResourceTemplate]:
        """The templates of the URIs."""
        ...

    async def page(self, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        """The resources after `cursor` (the first, if it is None), and the cursor of the next page, if there is one.

        Raises:
            ValueError: The cursor is none that this gave.
        """
        ...

    async def read(self, uri: str) -> Sequence[ReadResourceContents]:
        """The contents of the resource at `uri`.

        Raises:
            ResourceError: There is none, or it cannot be read: one of `mcp.server.mcpserver.exceptions`.
        """
        ...

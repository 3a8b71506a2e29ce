"""The kinds of resources that the web server has.

May import: nothing of Tidings.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Kind = Literal["packet", "content", "normalized", "screenshot", "raw", "page", "diff"]

SCHEME: Final = "webfetch://"

_JSON: Final = "application/json"


class Family(NamedTuple):
    """The resources of one kind."""

    kind: Kind
    about: Literal["source_id", "page_id"]
    """What the id in the URI is of: one version, which never changes, or a page, which does."""
    title: str
    description: str
    mime_type: str | None
    """None if it differs."""
    takes: str = ""
    """What may stand in the query."""

    @property
    def bare(self) -> str:
        """The template without the query."""
        return f"{SCHEME}{self.kind}/{{{self.about}}}"

    @property
    def template(self) -> str:
        """The URI template of all of them."""
        return f"{self.bare}{{?{self.takes}}}" if self.takes else self.bare

    @property
    def live(self) -> bool:
        """Whether it can change, and be subscribed to."""
        return self.about == "page_id"


FAMILIES: Final[Mapping[str, Family]] = {
    family.kind: family
    for family in (
        Family(
            "packet",
            "source_id",
            "Page, as a packet",
            "One version of a page: its content as markdown, metadata, outline, blocks with places, warnings, hashes.",
            _JSON,
        ),
        Family("content", "source_id", "Content", "The content of one version of a page.", "text/markdown"),
        Family("normalized", "source_id", "Page, without hashes", "One version of a page, without its hashes.", _JSON),
        Family("screenshot", "source_id", "Screenshot", "A picture of the page as it was rendered.", "image/png"),
        Family(
            "raw",
            "source_id",
            "Raw bytes",
            "The bytes as they came, if they were asked for or nothing here reads them.",
            None,
        ),
        Family(
            "page",
            "page_id",
            "Page, newest version",
            "The newest version of a page, with the versions before it. Subscribe to it to have the page watched and "
            "be told when its content changes.",
            _JSON,
        ),
        Family(
            "diff",
            "page_id",
            "What changed on a page",
            "The difference between the last two versions of a page, or from one of its versions to the newest. "
            "Subscribe to it to be told when there is a new one.",
            "text/x-diff",
            "from",
        ),
    )
}

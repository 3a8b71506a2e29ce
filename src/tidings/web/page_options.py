"""The options of a fetch, and which of them make the answer another one.

`to_json` is what the store keeps, so that a watched page is fetched again in the same way. It has no `headers`:
they may be secrets. `login` is kept, because it has only the names of secrets. The descriptions of `RenderOptions` and
`Extraction` are read by language models, which pay for each word.
"""

import hashlib
import json
from collections.abc import Mapping
from secrets import token_bytes
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidings.web.extract.model import ExtractOptions
from tidings.web.fetch.request import SECRET_NAME, Request

Mode = Literal["auto", "http", "render"]
WaitUntil = Literal["load", "domcontentloaded", "networkidle", "commit"]

STRICT = ConfigDict(extra="forbid", frozen=True)  # for arguments of tools that are objects of their own

# The options that are kept, as far as they differ from the default.
_KEPT = {
    *("mode", "user_agent", "respect_robots", "max_bytes", "include_raw_excerpt", "part", "login", "body"),
    *("render", "extraction"),
}
_HARMLESS = ("accept", "accept-language", "content-type", "user-agent", "x-requested-with")
_SALT = token_bytes(16)  # so that a password in a header cannot be guessed from its hash in the store


class RenderOptions(BaseModel):
    """Options of the rendering."""

    model_config = STRICT

    wait_until: WaitUntil = "load"
    wait_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    block_third_party: bool = True
    screenshot: bool = False
    selector: Annotated[str, Field(description="Wait until this CSS selector is there")] = ""


class Extraction(BaseModel):
    """Options of the extraction."""

    model_config = STRICT

    prefer_readability: Annotated[bool, Field(description="Treat it as an article")] = False
    keep_tables: bool = True
    keep_code_blocks: bool = True
    remove_selectors: Annotated[list[str], Field(description="CSS selectors of parts to leave out")] = []
    whole_page: Annotated[bool, Field(description="All of it, menus included")] = False
    comments: Annotated[bool | None, Field(description="Readers' comments; None: as the kind of page has it")] = None
    links: Literal["inline", "footnotes", "off"] = "inline"
    images: bool = True


def kept_openly(headers: Mapping[str, str]) -> str | None:
    """Returns the first header whose value, perhaps a secret, would be kept as it is; None if there is none."""
    open_ = (name for name, value in headers.items() if name.lower() not in _HARMLESS and not SECRET_NAME.search(value))
    return next(open_, None)


class FetchOptions(BaseModel):
    """The options of a fetch. None: as the server's limits have it."""

    model_config = ConfigDict(frozen=True)

    mode: Mode = "auto"
    headers: Mapping[str, str] = {}
    timeout: float | None = None
    max_bytes: int | None = None
    max_redirects: int | None = None
    user_agent: str | None = None
    respect_robots: bool = True
    cache_ttl: float | None = None  # seconds for which a version is fresh: it is answered without a request to the site
    render: RenderOptions = RenderOptions()
    extraction: Extraction = Extraction()
    keep_raw: bool = False  # keep the bytes as they came, too
    include_raw_excerpt: bool = False
    part: str = ""  # the part of the page that is asked for, see `extract.part`: it is a page of its own
    login: Mapping[str, str] = {}  # headers that are kept
    body: str = ""  # the body of a POST request
    memory: str = ""  # of the last look, if there was one: see `extract.html.choose`

    def variant(self, url: str) -> str:
        """Returns a text that is the same for two requests that are answered with the same packet."""
        digest = ""
        if self.headers:
            pairs = sorted((name.lower(), value) for name, value in self.headers.items())
            digest = hashlib.sha256(_SALT + json.dumps(pairs).encode()).hexdigest()
        text = json.dumps([url, self._kept(), digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def address(self, url: str) -> str:
        """Returns the text that identifies the page of a request."""
        posted = f"POST {hashlib.sha256(self.body.encode()).hexdigest()[:8]}" if self.body else ""
        more = " ".join(filter(None, [posted, self.part]))
        return f"{url} [{more}]" if more else url

    def to_json(self, url: str) -> dict[str, Any]:
        """Returns what the store keeps of a request: the URL, its `variant`, and all that differs from the default."""
        return {**self._kept(), "url": url, "variant": self.variant(url)}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "FetchOptions":
        """Returns the options that were stored; unknown ones are ignored."""
        kept = {name: value for name, value in stored.items() if name in _KEPT}
        for name, kind in (("render", RenderOptions), ("extraction", Extraction)):
            given: Mapping[str, Any] = kept.get(name, {})
            kept[name] = {key: value for key, value in given.items() if key in kind.model_fields and value is not None}
        return FetchOptions(**kept)

    def request(self, url: str) -> Request:
        names = {"body", "respect_robots", "timeout", "max_bytes", "max_redirects", "user_agent"}
        return Request(url, headers={**self.headers, **self.login}, **self.model_dump(include=names))

    def reading(self) -> ExtractOptions:
        """Returns the options of the extraction; its bounds are the server's."""
        given = self.extraction.model_dump()
        given["remove_selectors"] = tuple(given["remove_selectors"])
        return ExtractOptions(**given, part=self.part, prior=self.memory)

    def without(self, selectors: tuple[str, ...]) -> "FetchOptions":
        """Returns the same options, with these parts of the page left out as well."""
        all_of_them = list(dict.fromkeys((*self.extraction.remove_selectors, *selectors)))
        extraction = self.extraction.model_copy(update={"remove_selectors": all_of_them})
        return self.model_copy(update={"extraction": extraction})

    def _kept(self) -> dict[str, Any]:
        hidden = {"render"} if self.mode == "http" else set[str]()
        return self.model_dump(include=_KEPT - hidden, exclude_defaults=True)

"""The options of a fetch, and which of them make the answer another one.

Two requests of the same `variant` get the same packet, so the store may answer one with what the other left there. A
page is identified by its `address`, the URL that was asked for: what it claims to be does not count. `to_json` is what
the store keeps, so that a watched page is fetched again in the same way. It has no `headers`: they may be secrets,
which belong on no disk, and a page that was fetched with them is watched without them. `login` is kept, because it has
only the names of secrets.

`RenderOptions` and `Extraction` are also arguments of the tools; their descriptions are read by language models, which
pay for each word.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from secrets import token_bytes
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from tidings.web.extract.model import ExtractOptions
from tidings.web.fetch.request import Request

Mode = Literal["auto", "http", "render"]
WaitUntil = Literal["load", "domcontentloaded", "networkidle", "commit"]

STRICT = ConfigDict(extra="forbid", frozen=True)  # for arguments of tools that are objects of their own

_STORED = (
    "mode",
    "user_agent",
    "respect_robots",
    "max_bytes",
    "include_raw_excerpt",
    "part",
    "login",
    "body",
)  # kept as they are
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

    def options(self) -> ExtractOptions:
        """Returns the options of the extraction; its bounds are the server's."""
        return _extract_options(self.model_dump())


@dataclass(frozen=True)
class FetchOptions:
    """The options of a fetch. None: as the server's limits have it."""

    mode: Mode = "auto"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None
    max_bytes: int | None = None
    max_redirects: int | None = None
    user_agent: str | None = None
    respect_robots: bool = True
    cache_ttl: float | None = None  # seconds for which a version is fresh: it is answered without a request to the site
    render: RenderOptions = field(default_factory=RenderOptions)
    extraction: ExtractOptions = field(default_factory=ExtractOptions)
    keep_raw: bool = False  # keep the bytes as they came, too
    include_raw_excerpt: bool = False
    part: str = ""  # the part of the page that is asked for, see `extract.part`: it is a page of its own
    login: Mapping[str, str] = field(default_factory=dict[str, str])  # headers that are kept
    body: str = ""  # the body of a POST request

    def variant(self, url: str) -> str:
        """Returns a text that is the same for two requests that are answered with the same packet."""
        digest = ""
        if self.headers:
            pairs = sorted((name.lower(), value) for name, value in self.headers.items())
            digest = hashlib.sha256(_SALT + json.dumps(pairs).encode()).hexdigest()
        text = json.dumps([url, self._unusual(), digest], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def address(self, url: str) -> str:
        """Returns the text that identifies the page of a request."""
        posted = f"POST {hashlib.sha256(self.body.encode()).hexdigest()[:8]}" if self.body else ""
        more = " ".join(filter(None, [posted, self.part]))
        return f"{url} [{more}]" if more else url

    def to_json(self, url: str) -> dict[str, Any]:
        """Returns what the store keeps of a request: the URL, its `variant`, and all that differs from the default."""
        return {**self._unusual(), "url": url, "variant": self.variant(url)}

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> "FetchOptions":
        """Returns the options that were stored; unknown ones are ignored."""
        render: dict[str, Any] = {n: v for n, v in stored.get("render", {}).items() if n in RenderOptions.model_fields}
        render["selector"] = render.get("selector") or ""
        plain: dict[str, Any] = {name: stored[name] for name in _STORED if name in stored}
        extraction = _extract_options(stored.get("extraction", {}))
        return FetchOptions(**plain, render=RenderOptions.model_construct(**render), extraction=extraction)

    def request(self, url: str) -> Request:
        """Returns the request for `url` with these options."""
        return Request(
            url,
            headers={**self.headers, **self.login},
            body=self.body,
            respect_robots=self.respect_robots,
            timeout=self.timeout,
            max_bytes=self.max_bytes,
            max_redirects=self.max_redirects,
            user_agent=self.user_agent,
        )

    def without(self, selectors: tuple[str, ...]) -> "FetchOptions":
        """Returns the same options, with these parts of the page left out as well."""
        more = (*self.extraction.remove_selectors, *(s for s in selectors if s not in self.extraction.remove_selectors))
        return replace(self, extraction=replace(self.extraction, remove_selectors=more))

    def after(self, memory: str) -> "FetchOptions":
        """Returns the same options for the look after the one with this memory."""
        return replace(self, extraction=replace(self.extraction, prior=memory, part=self.part))

    def _unusual(self) -> dict[str, Any]:
        usual, mine = _plain(FetchOptions()), _plain(self)
        return {name: value for name, value in mine.items() if value != usual[name]}


def _plain(options: FetchOptions) -> dict[str, Any]:
    extraction = {name: getattr(options.extraction, name) for name in Extraction.model_fields}
    extraction["remove_selectors"] = list(options.extraction.remove_selectors)
    render = options.render if options.mode != "http" else RenderOptions()
    return {
        **{name: getattr(options, name) for name in _STORED},
        "render": {**render.model_dump(), "selector": render.selector or None},
        "extraction": extraction,
    }


def _extract_options(stored: Mapping[str, Any]) -> ExtractOptions:
    known = {name: value for name, value in stored.items() if name in Extraction.model_fields}
    known["remove_selectors"] = tuple(cast("list[str]", known.get("remove_selectors", ())))
    return ExtractOptions(**known)

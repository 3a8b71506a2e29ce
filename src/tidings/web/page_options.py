"""What may be asked for with a page, and what of it makes the answer another one.

Two requests of the same `variant` get the same packet, so one may be answered with what the other left in the store.
The URL is a part of it: a page says itself which page it is a version of, so what was fetched by one URL is no answer
for another. `to_json` is what the store keeps, so that a watched page is fetched as it was asked for. Headers are not
among it: they may be secrets, which belong on no disk. A page that was fetched with headers is watched without them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from secrets import token_bytes
from typing import Any, Literal, cast

from tidings.web.extract.model import ExtractOptions
from tidings.web.fetch.request import Request

Mode = Literal["auto", "http", "render"]
WaitUntil = Literal["load", "domcontentloaded", "networkidle", "commit"]

_SALT = token_bytes(16)
"""So that the hash of a password in a header cannot be guessed from the store; each process asks anew."""


@dataclass(frozen=True)
class RenderOptions:
    """How a page is rendered, where it is."""

    wait_until: WaitUntil = "load"
    wait_ms: int = 0
    block_third_party: bool = True
    screenshot: bool = False
    selector: str | None = None
    """Wait until this is there."""


_RENDER = tuple(each.name for each in fields(RenderOptions))
_EXTRACTION = ("keep_tables", "keep_code_blocks", "remove_selectors", "prefer_readability")
"""What of the extraction is the caller's; its bounds are the server's."""


@dataclass(frozen=True)
class FetchOptions:
    """What the caller may ask for. None: as the server's limits have it."""

    mode: Mode = "auto"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None
    max_bytes: int | None = None
    max_redirects: int | None = None
    user_agent: str | None = None
    respect_robots: bool = True
    cache_ttl: float | None = None
    """A version this young is answered without asking the site, in seconds."""
    render: RenderOptions = field(default_factory=RenderOptions)
    extraction: ExtractOptions = field(default_factory=ExtractOptions)
    keep_raw: bool = False
    """Keep the bytes as they came, too."""
    include_raw_excerpt: bool = False

    def variant(self, url: str) -> str:
        """The same for two requests that are answered with the same packet."""
        text = json.dumps([url, self._unusual(), self._headers_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self, url: str) -> dict[str, Any]:
        """What is to be remembered of a request for `url`: it, its `variant`, and what is not as it usually is."""
        return {**self._unusual(), "url": url, "variant": self.variant(url)}

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> "FetchOptions":
        """The options that were remembered; what is no longer known is left out."""
        extraction = dict(cast("dict[str, Any]", said.get("extraction", {})))
        extraction["remove_selectors"] = tuple(cast("list[str]", extraction.get("remove_selectors", ())))
        return FetchOptions(
            mode=said.get("mode", "auto"),
            user_agent=said.get("user_agent"),
            respect_robots=said.get("respect_robots", True),
            max_bytes=said.get("max_bytes"),
            render=RenderOptions(**_known(_RENDER, said.get("render", {}))),
            extraction=ExtractOptions(**_known(_EXTRACTION, extraction)),
            include_raw_excerpt=said.get("include_raw_excerpt", False),
        )

    def request(self, url: str, *, etag: str | None = None, last_modified: str | None = None) -> Request:
        """The request for `url` with these options."""
        return Request(
            url,
            headers=self.headers,
            etag=etag,
            last_modified=last_modified,
            respect_robots=self.respect_robots,
            timeout=self.timeout,
            max_bytes=self.max_bytes,
            max_redirects=self.max_redirects,
            user_agent=self.user_agent,
        )

    def without(self, selectors: tuple[str, ...]) -> "FetchOptions":
        """The same, with these parts of the page left out as well."""
        more = (*self.extraction.remove_selectors, *(s for s in selectors if s not in self.extraction.remove_selectors))
        return replace(self, extraction=replace(self.extraction, remove_selectors=more))

    def _unusual(self) -> dict[str, Any]:
        usual, said = _plain(FetchOptions()), _plain(self)
        return {name: value for name, value in said.items() if value != usual[name]}

    def _headers_digest(self) -> str:
        if not self.headers:
            return ""
        pairs = sorted((name.lower(), value) for name, value in self.headers.items())
        return hashlib.sha256(_SALT + json.dumps(pairs).encode()).hexdigest()


def _plain(options: FetchOptions) -> dict[str, Any]:
    extraction = {name: getattr(options.extraction, name) for name in _EXTRACTION}
    extraction["remove_selectors"] = list(options.extraction.remove_selectors)
    return {
        "mode": options.mode,
        "user_agent": options.user_agent,
        "respect_robots": options.respect_robots,
        "max_bytes": options.max_bytes,
        "render": asdict(options.render) if options.mode != "http" else asdict(RenderOptions()),
        "extraction": extraction,
        "include_raw_excerpt": options.include_raw_excerpt,
    }


def _known(names: tuple[str, ...], said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name in names}

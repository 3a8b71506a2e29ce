"""The page about each error code."""

import re
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import endpoint, unknown

_HOMES: Final = (
    Path(__file__).parent.parent / "errors",  # in a wheel
    Path(__file__).parents[4] / "docs" / "errors",  # in a checkout
)
_CODE: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


async def page(request: Request) -> dict[str, Any]:
    """The page about a code, as markdown."""
    code = request.path_params["code"]
    pages = {path.stem: path for home in _HOMES if home.is_dir() for path in sorted(home.glob("*.md"))}
    if not _CODE.fullmatch(code) or code not in pages:
        raise unknown("help page", code, pages)
    return {"code": code, "text": pages[code].read_text(encoding="utf-8")}


async def pages(_: Request) -> dict[str, Any]:
    """Which codes there are."""
    found = {path.stem for home in _HOMES if home.is_dir() for path in home.glob("*.md")}
    return {"codes": sorted(code for code in found - {"index"} if _CODE.fullmatch(code))}


ROUTES: Final = [Route("/api/help", endpoint(pages)), Route("/api/help/{code}", endpoint(page))]

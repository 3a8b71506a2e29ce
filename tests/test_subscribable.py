"""One rule for what is a URI of a server: for reading and for subscribing, at each of our servers, in both eras."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from tidings import LiveServer
from tidings.vault.server import VaultServer
from tidings.web.server import WebServer

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "legacy"]
PATHS = ["../../etc/passwd", "..%2F..%2Fetc%2Fpasswd", ".hidden/x.md", "a%00b", "Secret/x.md"]


def vault(folder: Path) -> VaultServer:
    (folder / "vault").mkdir()
    (folder / "vault/A.md").write_text("x")
    return VaultServer(folder / "vault", cache=folder / "cache", exclude=["Secret"])


def notes(_: Path) -> LiveServer[Any]:
    mcp = LiveServer("notes")

    @mcp.resource("notes://all")
    def everything() -> str:
        return "x"

    @mcp.resource("notes://one/{name}")
    def one(name: str) -> str:
        return name

    return mcp


def web(_: Path) -> WebServer:
    return WebServer()


NONSENSE: dict[Callable[[Path], Any], list[str]] = {
    vault: [
        "vault://recents",
        "vault://",
        "vault://nonsense/x",
        "vault://search/[",
        "vault://search/",
        "vault://search/tag:",
        "vault://daily/notadate",
        "vault://daily/2026-02-30",
        "vault://note/A.md?mode=odd",
        "vault://recent/x",
        *(f"vault://{kind}/{path}" for kind in ("note", "folder", "backlinks", "attachment") for path in PATHS),
        "other://x",
    ],
    web: [
        "webfetch://nonsense/x",
        "webfetch://page/xyz",
        "webfetch://page/0123456789ABCDEF",
        "webfetch://",
        "other://x",
        "https://x.org/",
    ],
    notes: ["notes://none", "notes://one", "notes://", "other://x"],
}
GOOD: dict[Callable[[Path], Any], list[str]] = {
    vault: [
        *(
            "vault://recent",
            "vault://note/A.md",
            "vault://note/Not%20yet.md",
            "vault://folder/Not/yet",
            "vault://folder/",
        ),
        *("vault://tag/not-yet", "vault://search/not%20yet", "vault://daily/2030-01-31", "vault://backlinks/Not%20yet"),
        *("vault://*", "vault://note/*", "vault://note/Not*"),
    ],
    web: ["webfetch://*", "webfetch://page/*"],
    notes: ["notes://all", "notes://one/new", "notes://*"],
}


async def subscribe(client: Client, era: str, uri: str) -> None:
    if era != "legacy":
        async with client.listen(resource_subscriptions=[uri]):
            return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await client.session.subscribe_resource(uri)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("make", NONSENSE, ids=lambda make: make.__name__)
async def test_what_no_server_can_have_is_neither_read_nor_subscribed_to(
    make: Callable[[Path], Any], era: str, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with Client(make(tmp_path), mode=era, cache=None) as client:
            for uri in NONSENSE[make]:
                for ask in (subscribe(client, era, uri), client.read_resource(uri)):
                    with pytest.raises(MCPError) as refused:
                        await ask
                    assert "Traceback" not in str(refused.value)
                assert len(str(refused.value)) > 20


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
async def test_what_may_come_to_be_can_be_subscribed_to(make: Callable[[Path], Any], era: str, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with Client(make(tmp_path), mode=era, cache=None) as client:
            for uri in GOOD[make]:
                await subscribe(client, era, uri)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("make", "uri", "said"),
    [
        (vault, "vault://recents", "Did you mean vault://recent?"),
        (vault, "vault://daily/notadate", "Write one such as 2026-01-31"),
        (vault, "vault://search/[", "write [key]"),
        (vault, "vault://search/*", "has no end"),
        (web, "webfetch://pages/0123456789abcdef", "There are: webfetch://"),
        (notes, "notes://al", "Did you mean notes://all?"),
        (notes, "other://x", "notes://"),
    ],
)
async def test_the_refusal_names_what_there_is(make: Any, uri: str, said: str, era: str, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with Client(make(tmp_path), mode=era, cache=None) as client:
            with pytest.raises(MCPError) as refused:
                await subscribe(client, era, uri)
            assert said in str(refused.value)

"""A proxy: all requests go through it, and the guard is as strict as without it."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

import anyio
import anyio.abc
import pytest

from tests.web.fetch.h2_sites import h2_site, h2_text, trusting
from tests.web.fetch.servers import Names, fetcher, leads_to, site, text
from tidings.web.fetch.request import Blocked, Proxy, Request, Unreachable
from tidings.web.server import WebServer
from tidings.web.settings import BadSetting, Settings
from tidings.web.wiring import proxy_of

pytestmark = pytest.mark.anyio


@dataclass
class SmallProxy:
    """A forwarding proxy that reaches every site on loopback."""

    login: str = ""
    port: int = 0
    asked: list[str] = field(default_factory=list[str])  # the first line of each request

    @property
    def address(self) -> Proxy:
        user, _, password = self.login.partition(":")
        return Proxy("127.0.0.1", self.port, (user, password) if self.login else None)

    async def serve(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await client.receive()
            head, _, rest = data.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            self.asked.append(first)
            expected = f"basic {b64encode(self.login.encode()).decode()}".lower()
            given = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            if self.login and given.get("proxy-authorization", "").lower() != expected:
                await client.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            method, target, _ = first.split(" ")
            where = target if method == "CONNECT" else target.split("/")[2]
            async with await anyio.connect_tcp("127.0.0.1", int(where.rpartition(":")[2])) as remote:
                if method == "CONNECT":
                    await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    kept = [first, *(line for line in lines if not line.lower().startswith("proxy-")), "", ""]
                    rest = "\r\n".join(kept).encode("latin-1") + rest
                origin = f"http://{where}".encode()
                if rest:
                    await remote.send(rest.replace(origin, b""))
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_copy, client, remote, tasks.cancel_scope, origin)
                    tasks.start_soon(_copy, remote, client, tasks.cancel_scope, origin)


async def _copy(
    source: anyio.abc.ByteStream, target: anyio.abc.ByteStream, both: anyio.CancelScope, origin: bytes
) -> None:
    try:
        async for data in source:
            await target.send(data.replace(origin, b""))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    both.cancel()


@asynccontextmanager
async def small_proxy(login: str = "") -> AsyncGenerator[SmallProxy]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    running = SmallProxy(login, listener.extra(anyio.abc.SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, running.serve)
        yield running
        tasks.cancel_scope.cancel()


PUBLIC = Names(shop_example=[["93.184.216.34"]], inner_example=[["10.0.0.7"]], mixed_example=[["93.184.216.34", "::1"]])


async def test_a_page_comes_through_the_proxy_which_gets_its_name() -> None:
    async with small_proxy() as proxy, site({"/a": text("hello")}) as here:
        async with fetcher(proxy=proxy.address, allow_private=(), resolver=PUBLIC) as fetch:
            for _ in range(2):
                url = here.url("/a", "shop.example")
                response = await fetch.fetch(Request(url, respect_robots=False))
                assert (response.body, response.private) == (b"hello", False)
        assert set(proxy.asked) == {f"GET http://shop.example:{here.port}/a HTTP/1.1"}
        assert {ask.headers["host"] for ask in here.asked} == {f"shop.example:{here.port}"}


async def test_a_page_of_https_comes_through_a_tunnel_and_its_certificate_is_checked() -> None:
    names = Names(a_example=[["93.184.216.34"]])
    async with small_proxy() as proxy, h2_site({"/": h2_text(b"safe")}) as here:
        url = here.url("/")
        async with fetcher(proxy=proxy.address, allow_private=(), resolver=names, tls=trusting()) as fetch:
            assert (await fetch.fetch(Request(url, respect_robots=False))).body == b"safe"
        async with fetcher(proxy=proxy.address, allow_private=(), resolver=names) as fetch:
            with pytest.raises(Unreachable, match="certificate"):
                await fetch.fetch(Request(url, respect_robots=False))
        assert set(proxy.asked) == {f"CONNECT a.example:{here.port} HTTP/1.1"}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://2130706433/",
        "http://169.254.169.254/latest/meta-data",
        "https://192.168.1.1/",
        "http://[::1]/",
        "http://[2606:4700::1111]/",
        "http://inner.example/",
        "https://inner.example/",
        "http://mixed.example/",
        "http://shop.example:22/",
    ],
)
async def test_what_is_refused_without_a_proxy_is_refused_with_one_and_it_hears_nothing(url: str) -> None:
    async with (
        small_proxy() as proxy,
        fetcher(proxy=proxy.address, allow_private=(), resolver=PUBLIC) as fetch,
    ):
        with pytest.raises(Blocked):
            await fetch.fetch(Request(url, respect_robots=False))
        assert proxy.asked == []


async def test_the_proxy_itself_is_no_site_and_a_redirect_to_a_private_address_is_refused() -> None:
    async with small_proxy() as proxy, site({"/": leads_to("http://127.0.0.1/secret")}) as here:
        async with fetcher(proxy=proxy.address, allow_private=(), resolver=PUBLIC) as fetch:
            with pytest.raises(Blocked):
                await fetch.fetch(Request(f"http://127.0.0.1:{proxy.port}/", respect_robots=False))
            with pytest.raises(Blocked):
                await fetch.fetch(Request(here.url("/", "shop.example"), respect_robots=False))
        assert len(proxy.asked) == 1


async def test_each_request_is_checked_also_on_a_connection_that_is_open() -> None:
    names = Names(shop_example=[["93.184.216.34"], ["10.0.0.7"]])
    async with (
        small_proxy() as proxy,
        site({"/": text("hello")}) as here,
        fetcher(proxy=proxy.address, allow_private=(), resolver=names) as fetch,
    ):
        request = Request(here.url("/", "shop.example"), respect_robots=False)
        assert (await fetch.fetch(request)).body == b"hello"
        with pytest.raises(Blocked, match="private network"):
            await fetch.fetch(request)


async def test_a_name_that_cannot_be_resolved_here_is_not_left_to_the_proxy() -> None:
    async with (
        small_proxy() as proxy,
        fetcher(proxy=proxy.address, allow_private=(), resolver=PUBLIC) as fetch,
    ):
        with pytest.raises(Unreachable, match="cannot be resolved"):
            await fetch.fetch(Request("http://unknown.example/", respect_robots=False))
        assert proxy.asked == []


async def test_the_address_that_is_allowed_is_marked_as_private() -> None:
    names = Names(inner_example=[["10.0.0.7"]])
    networks = (ip_network("10.0.0.0/8"),)
    async with (
        small_proxy() as proxy,
        site({"/": text("hello")}) as here,
        fetcher(proxy=proxy.address, allow_private=networks, resolver=names) as fetch,
    ):
        assert (await fetch.fetch(Request(here.url("/", "inner.example"), respect_robots=False))).private


async def test_a_login_is_sent_to_the_proxy_alone_and_a_refusal_is_said() -> None:
    async with small_proxy("ann:secret") as proxy, site({"/": text("hello")}) as here:
        url = here.url("/", "shop.example")
        async with fetcher(proxy=proxy.address, allow_private=(), resolver=PUBLIC) as fetch:
            assert (await fetch.fetch(Request(url, respect_robots=False))).body == b"hello"
        assert "proxy-authorization" not in here.asked[0].headers
        assert "secret" not in repr(proxy.address)
        nobody = Proxy("127.0.0.1", proxy.port)
        async with fetcher(proxy=nobody, allow_private=(), resolver=PUBLIC) as fetch:
            with pytest.raises(Unreachable, match=r"the proxy refuses it \(407"):
                await fetch.fetch(Request("https://shop.example/", respect_robots=False))


async def test_without_its_proxy_nothing_is_fetched() -> None:
    async with site({"/": text("hello")}) as here:
        async with fetcher(proxy=Proxy("127.0.0.1", 9), resolver=PUBLIC) as fetch:
            with pytest.raises(Unreachable):
                await fetch.fetch(Request(here.url("/"), respect_robots=False))
        assert here.asked == []


def test_the_setting_names_the_password_and_never_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(proxy="http://ann:$PROXY_PASSWORD@proxy.example:3128")
    with pytest.raises(BadSetting, match="no PROXY_PASSWORD"):
        WebServer(settings)
    monkeypatch.setenv("PROXY_PASSWORD", "s3cret")
    assert proxy_of(settings) == Proxy("proxy.example", 3128, ("ann", "s3cret"))
    assert "s3cret" not in repr(settings)
    assert proxy_of(Settings()) is None
    assert proxy_of(Settings(proxy="http://10.0.0.1:3128/")) == Proxy("10.0.0.1", 3128)


@pytest.mark.parametrize(
    "text",
    [
        "proxy.example",
        "http://proxy.example",
        "http://ann:plain@proxy.example:1",
        "socks5://a:1",
        "http://a:0",
        "http://a:99999",
    ],
)
def test_what_is_no_proxy_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(BadSetting, match="PASSWORD") as refused:
        Settings(proxy=text)
    assert "plain" not in str(refused.value)

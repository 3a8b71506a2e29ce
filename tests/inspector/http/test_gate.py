"""Who may come in: every path of the API, and every way to try."""

import logging
import socket
from collections.abc import AsyncGenerator

import httpx2
import pytest
from starlette.types import Receive, Scope, Send

from tests.inspector.http.page import OURS, Page, opened
from tidings.inspector.http.gate import ENTER, Gate, Key
from tidings.inspector.http.serve import API

pytestmark = pytest.mark.anyio

PATHS = [
    (method, route.path)
    for route in API
    for method in sorted((route.methods or set()) - {"HEAD"})
    if route.path != ENTER
]
SAMPLE = {"{server}": "s", "{list}": "tools", "{id}": "1", "{id:int}": "1", "{seq:int}": "1", "{tool:path}": "t"}


def filled(path: str) -> str:
    for name, value in SAMPLE.items():
        path = path.replace(name, value)
    return path.replace("{prompt:path}", "p").replace("{name}", "n").replace("{code}", "c")


@pytest.fixture(scope="module")
async def page() -> AsyncGenerator[Page]:
    async with opened() as page:
        yield page


@pytest.fixture
async def stranger(page: Page) -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=page.base, trust_env=False) as http:
        yield http


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_without_the_cookie_and_the_key_every_path_answers_with_nothing(
    stranger: httpx2.AsyncClient, page: Page, method: str, path: str
) -> None:
    right = {"Cookie": page.key.cookie.partition(";")[0]}
    wrong = {"Cookie": f"{page.key.cookie_name}=guess"}
    said = {"X-Tidings": page.key.word}
    for headers in (OURS, said, {**said, **wrong}, {**OURS, **right}, {"X-Tidings": "", **right}):
        response = await stranger.request(method, filled(path), headers=headers, json={} if method != "GET" else None)
        assert response.status_code == 401
        assert response.content == b""
        assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "path",
    [
        "/%00api/snapshot",
        "/api%00/snapshot",
        "/api/%00snapshot",
        "/api/snapshot%00",
        "/.%00/api/snapshot",
        "/..%00/api/snapshot",
        "/api%2fsnapshot",
        "/%2fapi/snapshot",
        "/api/.%00/snapshot",
        "/%61pi/snapshot",
        "/%00/api/catalog/export",
    ],
)
async def test_no_spelling_of_a_path_goes_round_the_gate(stranger: httpx2.AsyncClient, path: str) -> None:
    assert (await stranger.get(path)).status_code in (401, 404)


async def test_a_path_of_the_api_that_does_not_exist_is_no_exception(stranger: httpx2.AsyncClient) -> None:
    for path in ("/api/nothing", "/api/", "/api", "/api/../api/hello", "/api//hello"):
        assert (await stranger.get(path)).status_code in (401, 404)


async def test_the_token_gives_a_cookie_that_scripts_and_other_sites_cannot_have(
    stranger: httpx2.AsyncClient, page: Page
) -> None:
    token = (await page.post("/api/link", {}))["token"]
    response = await stranger.post(ENTER, json={"token": token}, headers=OURS)
    assert response.status_code == 200
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"tidings-{page.key.port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    word = response.json()["key"]
    assert token not in cookie + word
    assert word not in cookie
    assert (await stranger.post(ENTER, json={"token": token}, headers=OURS)).status_code == 401, "it opens once"
    assert (await stranger.get("/api/hello")).status_code == 401
    assert (await stranger.get("/api/hello", headers={"X-Tidings": word})).status_code == 200
    assert (await stranger.get("/api/hello", params={"key": word})).status_code == 200
    assert (await stranger.post("/api/check", params={"key": word}, json={})).status_code == 401


@pytest.mark.parametrize("token", ["", "guess", None, 5, ["x"], {"a": 1}])
async def test_another_token_gives_nothing(stranger: httpx2.AsyncClient, token: object) -> None:
    response = await stranger.post(ENTER, json={"token": token}, headers=OURS)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "",
        "0.0.0.0:{port}",
    ],
)
async def test_a_foreign_name_that_leads_here_is_refused(page: Page, host: str) -> None:
    for path in ("/", "/api/hello"):
        response = await page.http.get(path, headers={"Host": host.format(port=page.key.port)})
        assert response.status_code == 421
        assert response.content == b""


async def test_localhost_is_a_name_of_this_machine(page: Page) -> None:
    response = await page.http.get("/api/hello", headers={"Host": f"localhost:{page.key.port}"})
    assert response.status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"])
async def test_a_page_of_another_origin_is_refused(page: Page, origin: str) -> None:
    for method in ("GET", "POST"):
        path = "/api/hello" if method == "GET" else "/api/check"
        response = await page.http.request(
            method, path, headers={"Origin": origin}, json=None if method == "GET" else {}
        )
        assert response.status_code == 403


async def test_our_own_origin_passes(page: Page) -> None:
    assert (await page.http.get("/api/hello", headers={"Origin": page.base})).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_a_browser_says_comes_from_elsewhere_is_refused(page: Page, site: str) -> None:
    assert (await page.http.get("/api/hello", headers={"Sec-Fetch-Site": site})).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_what_a_form_of_another_page_could_send_changes_nothing(page: Page, kind: str) -> None:
    response = await page.http.post("/api/saved", content=b'{"name":"n"}', headers={"Content-Type": kind})
    assert response.status_code == 403


async def test_every_answer_forbids_to_run_anything_but_our_own_files(page: Page, stranger: httpx2.AsyncClient) -> None:
    answers = [await page.http.get("/"), await page.http.get("/api/hello"), await stranger.get("/api/hello")]
    answers += [await page.http.get("/nothing"), await page.http.get("/assets/nothing.js")]
    for response in answers:
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["x-dns-prefetch-control"] == "off"
        assert response.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in response.headers


async def test_the_token_is_never_logged(page: Page, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = page.key.renew()
    await page.post(ENTER, {"token": token})
    await page.post(ENTER, {"token": "wrong"}, 401)
    await page.get("/api/hello")
    # What the client of this test logs is not ours.
    logged = " ".join(each.getMessage() for each in caplog.records if not each.name.startswith("http"))
    assert token not in logged
    assert page.http.cookies[page.key.cookie_name] not in logged
    assert page.key.word not in logged
    assert page.key.word not in repr(page.key)
    token = page.key.renew()
    assert token not in repr(page.key)
    assert token not in repr(page.serving.inspector)


async def test_a_cookie_that_cannot_be_read_is_no_cookie(stranger: httpx2.AsyncClient) -> None:
    assert (await stranger.get("/api/hello", headers={"Cookie": '\\"\\; =;;;,'})).status_code == 401


async def test_two_inspectors_have_cookies_of_their_own() -> None:
    assert Key(1).cookie_name != Key(2).cookie_name


async def test_a_file_is_never_named_by_a_request(page: Page) -> None:
    for path in (
        "/assets/../index.html",
        "/assets/..%2f..%2fgate.py",
        "/assets/%2e%2e/manifest.json",
        "/assets//etc/passwd",
    ):
        assert (await page.http.get(path)).status_code == 404
    assert (await page.http.request("TRACE", "/")).status_code == 405
    assert (await page.http.post("/", json={})).status_code == 405


@pytest.mark.parametrize(
    "other",
    ['theme={"dark": true}', "a b=c", "x=é", "a[b]=1", "=x", 'n="unclosed', "sp=a b", "tidings-PORT=junk", "alone"],
)
async def test_cookies_of_other_programs_of_this_machine_lock_nobody_out(
    stranger: httpx2.AsyncClient, page: Page, other: str
) -> None:
    own, other = page.key.cookie.partition(";")[0], other.replace("PORT", str(page.key.port))
    for cookies in (f"{other}; {own}", f"{own}; {other}", f"{other};{own};{other}"):
        headers = [(b"Cookie", cookies.encode("latin-1")), (b"X-Tidings", page.key.word.encode())]
        assert (await stranger.get("/api/hello", headers=headers)).status_code == 200
    headers = [(b"Cookie", other.encode("latin-1")), (b"X-Tidings", page.key.word.encode())]
    assert (await stranger.get("/api/hello", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("listens", "host", "passes"),
    [
        ("127.0.0.1", socket.gethostname(), False),
        ("127.0.0.1", "192.168.0.7", False),
        ("0.0.0.0", socket.gethostname(), True),
        ("0.0.0.0", "192.168.0.7", True),
        ("0.0.0.0", "evil.example", False),
        ("Some.Host", "some.host", True),
    ],
)
async def test_who_listens_beyond_this_machine_is_called_by_its_name_or_its_address(
    listens: str, host: str, passes: bool
) -> None:
    passed: list[str] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        passed.append(scope["path"])
        await send({"type": "http.response.start", "status": 200})

    async def send(_: object) -> None: ...

    async def receive() -> dict[str, object]:
        return {}

    headers = [(b"host", f"{host}:6280".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b""}
    await Gate(app, Key(6280), host=listens)(scope, receive, send)
    assert bool(passed) is passes

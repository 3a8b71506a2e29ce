"""Secrets that a server says back, in every way it can: no error, event, log record or repr shows one."""

import base64
import json
import logging
import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.client.bad_servers import ERAS, ONCE, QUICK, behaved, hold, program, settings, web
from tests.client.misbehaving import Asked, site
from tests.ports import free_port
from tidings.client import LiveClient, connect
from tidings.errors import TidingsError

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("tidy")]

PASSWORD = "hunter2-äé/42"
KEY = "sk-live-0123456789abcdef"
TOKEN = "tok.very.secret.indeed"
HEADER = "x-api-value-777777"
SECRETS = [
    PASSWORD,
    KEY,
    TOKEN,
    HEADER,
    "hunter2-%C3%A4",
    base64.b64encode(f"ada:{PASSWORD}".encode()).decode(),
]
LONG_PATH = "AbCdEf0123456789GhIjKlMnOp"


class Seen:
    """Everything that anybody can see of a client."""

    def __init__(self, client: LiveClient) -> None:
        self._client = client
        self._texts: list[str] = [repr(client), client.name, repr(client._wiring.target), repr(client._wiring.setup)]
        client._wiring.events._everything.append(lambda event: self._texts.append(repr(event)))

    def note(self, error: BaseException) -> None:
        """An error, with all that led to it."""
        self._texts += [*traceback.format_exception(error), repr(error), repr(vars(error))]

    def text(self, caplog: pytest.LogCaptureFixture) -> str:
        form = logging.Formatter("%(name)s %(message)s")
        logged = [form.format(record) for record in caplog.get_records("call")]
        queue = [repr(entry) for entry in self._client.queue.history()]
        return "\n".join([*self._texts, *logged, *queue, repr(self._client.error), repr(self._client.queue.status())])


async def _use(client: LiveClient, seen: Seen) -> None:
    """Everything that may fail, fails."""
    try:
        async with client:
            for attempt in (
                client.read_resource("note://a"),
                client.call_tool("tool"),
                client.subscribe("note://a"),
                client.list_tools(),
            ):
                try:
                    await attempt
                except TidingsError as error:
                    seen.note(error)
    except TidingsError as error:
        seen.note(error)


def _hidden(seen: Seen, caplog: pytest.LogCaptureFixture, *others: str) -> str:
    text = seen.text(caplog)
    assert len(text) > 500
    for secret in (*SECRETS, *others):
        assert secret not in text
    return text


def _with_secrets(url: str) -> tuple[str, dict[str, Any]]:
    """The address with a password and a key in it, and a header."""
    place = url.partition("://")[2].replace("/mcp", f"/{LONG_PATH}/mcp")
    return f"http://ada:hunter2-%C3%A4%C3%A9%2F42@{place}?key={KEY}&verbose=1", {"headers": {"X-Value": HEADER}}


async def test_a_server_that_cannot_be_reached_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    url, options = _with_secrets(f"http://127.0.0.1:{free_port()}/mcp")
    client = connect(url, config=QUICK, **options)
    seen = Seen(client)
    await _use(client, seen)
    assert "Nothing answers at http://127.0.0.1:" in _hidden(seen, caplog, LONG_PATH)


@pytest.mark.parametrize("status", [200, 307, 400, 401, 404, 429, 500, 503])
async def test_a_web_server_that_says_secrets_back_shows_none(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async def echo(asked: Asked) -> None:
        said = f"<p>{asked.path} {asked.headers} {PASSWORD} {TOKEN}</p>".encode()
        await asked.answer(status, said, "text/html", location=asked.path + "/" + KEY, www_authenticate=KEY)

    async with site(echo) as here:
        url, options = _with_secrets(here.url)
        client = connect(url, config=settings(backoff=ONCE), **options)
        seen = Seen(client)
        await _use(client, seen)
    _hidden(seen, caplog, LONG_PATH)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("way", ["error", "result", "broken", "cut", "sse"])
async def test_an_mcp_server_that_says_secrets_back_shows_none(
    era: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def echo(asked: Asked) -> None:
        said = f"{asked.path} {asked.headers} {TOKEN}"
        number = asked.message["id"]
        match way:
            case "error":
                error = {"code": -32603, "message": said, "data": {"uri": said, "list": [said, {said: 1}]}}
                await asked.answer(body=json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode())
            case "result":
                await asked.result(**{said: said, "tools": said, "contents": [{"uri": said}], "content": said})
            case "broken":
                await asked.answer(body=said.encode())
            case "sse":
                await asked.events()
                await asked.write(f"data: {said}\r\n\r\n".encode())
                asked.writer.close()
            case _:
                await asked.write(f"HTTP/1.1 200 {TOKEN}\r\ncontent-length: 900\r\nx: {said}\r\n\r\n{said}".encode())
                asked.writer.close()

    does = behaved(era)
    methods = ("resources/read", "tools/call", "tools/list", "resources/subscribe", "subscriptions/listen")
    does |= {method: echo for method in methods if method in does}
    async with web(does) as here:
        client = connect(here.url + f"?key={KEY}", config=settings(request=1), token=TOKEN, headers={"X-V": HEADER})
        seen = Seen(client)
        await _use(client, seen)
    text = _hidden(seen, caplog)
    assert "***" in text or way == "cut"


@pytest.mark.parametrize("era", ERAS)
async def test_a_program_that_says_secrets_back_shows_none(era: str, caplog: pytest.LogCaptureFixture) -> None:
    code = """
import os
said = os.environ["API_KEY"] + " " + " ".join(sys.argv)
def odd(method, id, params):
    if method in ("initialize", "server/discover"):
        return False
    sys.stderr.write(said + "\\n"); sys.stderr.flush()
    say(said)
    if method == "tools/call":
        sys.stderr.write(said); sys.exit(3)
    send(id=id, error={"code": -32603, "message": said, "data": said})
    return True
"""
    command = [*program(code, era), "--token", TOKEN, f"--password={PASSWORD}"]
    client = connect(command, config=QUICK, env={"API_KEY": KEY})
    seen = Seen(client)
    await _use(client, seen)
    text = _hidden(seen, caplog)
    assert "StderrReceived" in text
    assert "GarbageReceived" in text


async def test_a_program_that_ends_at_once_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    code = "import os; sys.exit('cannot sign in with ' + os.environ['API_KEY'])"
    client = connect(program(code), config=QUICK, env={"API_KEY": KEY})
    seen = Seen(client)
    await _use(client, seen)
    assert "cannot sign in with ***" in _hidden(seen, caplog)


async def test_a_file_of_servers_shows_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def echo(asked: Asked) -> None:
        await asked.answer(500, f"{asked.headers}".encode(), "text/html")

    async with site(echo) as here:
        entry = {"url": here.url + "?k=${KEY}", "headers": {"Authorization": "Bearer ${TOKEN}"}}
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"notes": entry}}))
        environ = {**os.environ, "KEY": KEY, "TOKEN": TOKEN}
        client = connect(f"{file}#notes", config=settings(backoff=ONCE), environ=environ)
        seen = Seen(client)
        await _use(client, seen)
    assert "notes failed (HTTP 500)" in _hidden(seen, caplog)


async def test_a_server_that_is_never_done_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async with site(hold) as here:
        url, options = _with_secrets(here.url)
        client = connect(url, config=settings(backoff=ONCE, connect=0.2), **options)
        seen = Seen(client)
        await _use(client, seen)
    assert "did not answer within 0.2 s" in _hidden(seen, caplog, LONG_PATH)

"""Looks at tasks that have not changed: answered at once, and never with what is not the caller's or is not so."""

import json
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.auth.provider import AccessToken
from starlette.middleware.cors import CORSMiddleware

from tests.server import wire
from tests.server.serving import eventually, serving
from tests.server.test_rights import AUTH, Tokens
from tests.server.waking.tasking import (
    DECLARED,
    TODAY,
    about,
    accepted,
    answer,
    get,
    quick_notes,
    reaches,
    start,
    text,
    wait,
)
from tests.server.waking.test_running import Jobs, question
from tidings import LiveServer
from tidings.server import Limits, Waking

pytestmark = pytest.mark.anyio
INVALID, MISMATCH, MISSING = -32602, -32020, -32021


class Counted:
    """A server, and how often a request went the whole way."""

    def __init__(self, mcp: LiveServer[Any], port: int) -> None:
        self.mcp, self.port = mcp, port
        self.whole: Counter[str] = Counter()

    async def count(self, ctx: Any, call_next: Any) -> Any:
        self.whole[ctx.method] += 1
        return await call_next(ctx)

    async def look(self, task: str, *, number: Any = 1, body: Any = None, **headers: str) -> wire.Response:
        params = {"taskId": task, "_meta": wire.modern_meta(**DECLARED)}
        message = wire.message("tasks/get", params, number) if body is None else body
        named = {**wire.modern_headers("tasks/get", task), **headers}
        return await wire.once(self.port, wire.http("POST", named, message))


@asynccontextmanager
async def counted(mcp: LiveServer[Any] | None = None) -> AsyncGenerator[Counted]:
    mcp = mcp or quick_notes()
    app = mcp.asgi()
    async with serving(app) as port:
        made = Counted(mcp, port)
        mcp.middleware.append(made.count)
        yield made


async def test_looks_at_a_task_that_waits_go_the_whole_way_once() -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        first = await made.look(task)
        for number in (1, 2, "three", 0, "", 'a "quoted" one', 2**60, "ü", -1):
            again = await made.look(task, number=number)
            assert again.json == {**first.json, "id": number}
            assert again.headers["content-type"] == first.headers["content-type"]
        assert made.whole["tasks/get"] == 5  # The last four are written in different ways.


async def test_an_id_within_the_parameters_is_not_that_of_the_request() -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        meta = wire.modern_meta(**DECLARED, **{"example.com/more": {"id": 1}})

        def body(inner: int, outer: int) -> bytes:
            params = {"_meta": {**meta, "example.com/more": {"id": inner}}, "taskId": task}
            return json.dumps({"params": params, "method": "tasks/get", "id": outer, "jsonrpc": "2.0"}).encode()

        for inner, outer in [(1, 1), (1, 2), (2, 2), (2, 1)]:
            assert (await made.look(task, body=body(inner, outer))).json["id"] == outer
        assert made.whole["tasks/get"] == 2


async def test_a_change_is_seen_by_the_next_look() -> None:
    async with counted(quick_notes(waking=Waking(quiet=0.01, poll=0.05))) as made:
        task = await wait(made.port, TODAY)
        assert (await made.look(task)).json["result"]["status"] == "working"
        await made.mcp.notify.resource_updated(TODAY)
        assert (await made.look(task)).json["result"]["status"] == "completed"


async def test_a_cancellation_is_seen_by_the_next_look() -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        await made.look(task)
        await about(made.port, "tasks/cancel", task)
        assert (await made.look(task)).json["result"]["status"] == "cancelled"


async def test_a_tool_that_runs_as_a_task_is_looked_at_as_quickly_and_as_truly() -> None:
    jobs = Jobs()
    async with counted(jobs.mcp) as made:
        task = await start(made.port, "work")
        states = [(await made.look(task)).json["result"] for _ in range(5)]
        assert states == states[:1] * 5
        assert made.whole["tasks/get"] <= 2  # The first may come before the notice that the task was created.
        jobs.go.set()
        assert text((await reaches(made.port, task, "completed"))["result"]) == "done"
        asks = await start(made.port, "asks")
        key = await question(made.port, asks)
        for _ in range(3):
            assert list((await get(made.port, asks))["inputRequests"]) == [key]
        await answer(made.port, asks, **{key: accepted(ok=True)})
        await reaches(made.port, asks, "completed")


async def test_what_happens_on_another_replica_is_seen(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bus.db"
    async with counted(quick_notes(bus=url)) as here, counted(quick_notes(bus=url)) as there:
        task = await wait(here.port, TODAY)
        assert (await here.look(task)).json["result"]["status"] == "working"
        await about(there.port, "tasks/cancel", task)
        await reaches(here.port, task, "cancelled")


async def test_a_look_goes_the_whole_way_again_after_a_while() -> None:
    async with counted(quick_notes(limits=Limits(permission=0.05))) as made:
        task = await wait(made.port, TODAY)
        with anyio.fail_after(20):
            while made.whole["tasks/get"] < 3:
                assert (await made.look(task)).json["result"]["status"] == "working"


async def test_a_request_that_differs_in_anything_goes_the_whole_way() -> None:
    async with counted() as made:
        task, other = await wait(made.port, TODAY), await wait(made.port, TODAY)
        await made.look(task)
        meta = wire.modern_meta(**DECLARED)
        undeclared = wire.message("tasks/get", {"taskId": task, "_meta": wire.modern_meta()}, 1)
        assert (await made.look(task, body=undeclared)).error["code"] == MISSING
        foreign = wire.message("tasks/get", {"taskId": other, "_meta": meta}, 1)
        assert (await made.look(task, body=foreign)).error["code"] == MISMATCH
        named = wire.message("tasks/cancel", {"taskId": task, "_meta": meta}, 1)
        assert (await made.look(task, body=named)).error["code"] == MISMATCH
        whole = made.whole["tasks/get"]
        await made.look(task, **{"X-Other": "header"})
        assert made.whole["tasks/get"] == whole + 1
        with wire.coming_from("127.0.0.2"):
            await made.look(task)
        assert made.whole["tasks/get"] == whole + 2


async def test_requests_of_one_trace_are_the_same() -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        for number in range(3):
            await made.look(task, traceparent=f"00-{number:032x}-{1:016x}-01")
        assert made.whole["tasks/get"] == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b'"x"', b"[" * 100_000, b'{"jsonrpc":"2.0","method":"tasks/get"}'],
    ids=lambda body: repr(body[:20]),
)
async def test_a_body_of_another_shape_is_answered_as_ever(body: bytes) -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        before = await made.look(task, body=body)
        await made.look(task)
        after = await made.look(task, body=body)
        assert (after.status, after.body) == (before.status, before.body)


@pytest.mark.parametrize("number", [None, True, 1.5, [1], {"a": 1}])
async def test_an_id_that_is_none_is_answered_as_ever(number: Any) -> None:
    async with counted() as made:
        task = await wait(made.port, TODAY)
        message = {"jsonrpc": "2.0", "method": "tasks/get", "id": number}
        body = json.dumps({**message, "params": {"taskId": task, "_meta": wire.modern_meta(**DECLARED)}}).encode()
        before = await made.look(task, body=body)
        await made.look(task)
        after = await made.look(task, body=body)
        assert (after.status, after.body) == (before.status, before.body)


class Ending(Tokens):
    """Tokens that end, and can be taken back."""

    def __init__(self) -> None:
        self.end = int(time.time()) + 3600
        self.refused: set[str] = set()

    async def verify_token(self, token: str) -> AccessToken | None:
        if token in self.refused:
            return None
        return AccessToken(token=token, client_id="app", scopes=[], subject=token, expires_at=self.end)


async def test_nobody_gets_the_answer_of_somebody_else() -> None:
    async with counted(quick_notes(auth=AUTH, token_verifier=Ending())) as made:
        ada, eve = ({"Authorization": f"Bearer {name}"} for name in ("ada", "eve"))
        task = await wait_as(made.port, ada)
        for _ in range(3):
            assert (await made.look(task, **ada)).json["result"]["status"] == "working"
        assert (await made.look(task, **eve)).error["code"] == INVALID
        assert (await made.look(task)).status == 401
        assert made.whole["tasks/get"] == 2


async def test_a_revocation_lets_looks_go_the_whole_way() -> None:
    tokens = Ending()
    async with counted(quick_notes(auth=AUTH, token_verifier=tokens)) as made:
        ada = {"Authorization": "Bearer ada"}
        task = await wait_as(made.port, ada)
        await made.look(task, **ada)
        tokens.refused.add("ada")
        await made.mcp.notify.revoke("ada")
        await eventually(lambda: not made.mcp.notify.subscribers(TODAY))
        assert (await made.look(task, **ada)).status == 401


async def test_a_token_that_has_expired_gets_no_answer() -> None:
    tokens = Ending()
    tokens.end = int(time.time()) + 2
    async with counted(quick_notes(auth=AUTH, token_verifier=tokens)) as made:
        ada = {"Authorization": "Bearer ada"}
        task = await wait_as(made.port, ada)
        with anyio.fail_after(20):
            while (found := await made.look(task, **ada)).status == 200:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert found.status == 401


async def test_headers_of_middleware_are_kept_and_cookies_are_not_repeated() -> None:
    mcp = quick_notes()
    app = mcp.asgi()
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    cookies: list[int] = []

    class Cookies:
        def __init__(self, app: Any) -> None:
            self._app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def say(message: Any) -> None:
                if message["type"] == "http.response.start" and cookies:
                    message["headers"] = [*message["headers"], (b"set-cookie", b"a=%d" % len(cookies))]
                    cookies.append(1)
                await send(message)

            await self._app(scope, receive, say)

    app.add_middleware(Cookies)
    async with serving(app) as port:
        made = Counted(mcp, port)
        mcp.middleware.append(made.count)
        task = await wait(port, TODAY)
        origin = {"Origin": f"http://127.0.0.1:{port}"}
        for _ in range(3):
            assert (await made.look(task, **origin)).headers["access-control-allow-origin"] == "*"
        assert made.whole["tasks/get"] == 1
        cookies.append(1)
        other = await wait(port, TODAY)
        first, second = [(await made.look(other)).headers["set-cookie"] for _ in range(2)]
        assert first != second


async def wait_as(port: int, headers: dict[str, str]) -> str:
    params = {"name": "wait_for_change", "arguments": {"uris": [TODAY]}, "_meta": wire.modern_meta(**DECLARED)}
    named = {**wire.modern_headers("tools/call", "wait_for_change"), **headers}
    created = await wire.once(port, wire.http("POST", named, wire.message("tools/call", params, 1)))
    return created.json["result"]["taskId"]

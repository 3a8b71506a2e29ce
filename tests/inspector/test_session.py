"""A session shows what its servers do, and does what it is asked."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import Context

from tests.client.asking import Asking
from tests.client.library import Forgetful, Library, on_the_web
from tests.client.ways import environment
from tests.inspector.watching import watched
from tests.server.serving import ROOT, eventually, serving
from tidings import LiveServer
from tidings.errors import NotConnected, NotSupported
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.server import ConnectionSpec
from tidings.inspector.session import Session
from tidings.inspector.sessions.saved import list_sessions, load_session
from tidings.inspector.view.fold import replay
from tidings.inspector.view.items import ListDifference

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])


def weather() -> tuple[LiveServer, dict[str, str]]:
    """A server of weather, which can be changed."""
    cities = {"oslo": "cold", "rome": "warm"}
    server = LiveServer("weather", version="1.2", instructions="Ask for a city.")

    @server.resource("weather://{city}")
    def read(city: str) -> str:
        return cities[city]

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def slow(ctx: Context[Any]) -> str:
        await ctx.report_progress(1, 3, "one of three")
        await asyncio.sleep(60)
        return "done"

    @server.tool()
    async def fail() -> str:
        raise ValueError("It is broken.")

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    return server, cities


@ERAS
async def test_a_server_is_shown_with_all_it_has(era: str) -> None:
    async with watched(weather()[0], era=era) as (_, server):
        view = server.view
        assert view.words.startswith("connected, answered")
        assert view.title == view.name
        assert view.server_info == {"name": "weather", "version": "1.2"}
        assert view.instructions == "Ask for a city."
        assert view.transport == "memory"
        assert view.protocol_version == ("2026-07-28" if era == "auto" else "2025-11-25")
        assert list(view.tools) == ["add", "slow", "fail", "wait_for_change"]
        assert list(view.templates) == ["weather://{city}"]
        assert list(view.prompts) == ["greet"]
        assert view.tools["add"]["inputSchema"]["required"] == ["a", "b"]
        assert view.last_answer_ms is not None


async def test_what_is_asked_before_there_is_a_client_waits_for_it() -> None:
    async with Session() as session:
        server = await session.add(ConnectionSpec("it", weather()[0]))
        assert (server.client, server.view.state, server.view.words) == (None, "connecting", "connecting")
        found = await server.wait(server.call("add", {"a": 1, "b": 2}))
        assert found.result["structuredContent"] == {"result": 3}


async def test_one_that_is_ended_before_there_is_a_client_is_not_connected() -> None:
    async with Session() as session:
        server = await session.add(ConnectionSpec("it", weather()[0]))
        for turns in range(3):
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.disconnect()
            assert server.view.words == "not connected"
            server.start()
        await server.connect()
        assert server.view.state == "connected"


async def test_who_waits_for_a_connection_that_is_ended_at_once_waits_no_longer() -> None:
    async with Session() as session, asyncio.timeout(20):
        server = await session.add(ConnectionSpec("it", weather()[0]), connect=False)
        connecting = asyncio.create_task(server.connect())
        await asyncio.sleep(0)
        await server.disconnect()
        await connecting
        assert server.view.words == "not connected"


async def test_a_request_that_is_cancelled_at_once_is_over() -> None:
    async with watched(weather()[0]) as (_, server):
        known = server.call("add", {"a": 1, "b": 2})
        assert server.cancel(known)
        assert (await server.wait(known)).status == "cancelled"


async def test_reconnecting_waits_for_what_comes_of_it(tmp_path: Path) -> None:
    async with watched([str(tmp_path / "nothing")]) as (session, server), asyncio.timeout(20):
        told: list[str] = []
        session.listen(lambda record: told.append(record.data["state"]) if record.kind == "state" else None)
        await server.reconnect()
        assert told[:1] == ["connecting"]
        assert len(told) > 1


async def test_several_servers_at_once_leave_the_interpreter_as_it_was(tmp_path: Path) -> None:
    program = (
        "import asyncio, gc, sys\n"
        "from tidings.inspector.server import ConnectionSpec\n"
        "from tidings.inspector.session import Session\n"
        "async def main():\n"
        "    async with Session() as session:\n"
        "        servers = [await session.add(ConnectionSpec(name, ['/nowhere'])) for name in 'abc']\n"
        "        await asyncio.gather(*(server.connect() for server in servers))\n"
        "before = sys.getswitchinterval()\n"
        "asyncio.run(main())\n"
        "print(sys.getswitchinterval() == before, gc.isenabled())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=-1, cwd=tmp_path)
    assert (await process.communicate())[0].split() == [b"True", b"True"]


async def test_that_a_server_is_connected_to_is_told_once(tmp_path: Path) -> None:
    async with Session(journal=tmp_path / "kept.db") as session:
        told: list[str] = []
        session.listen(lambda record: told.append(record.data["state"]) if record.kind == "state" else None)
        server = await session.add(ConnectionSpec("it", weather()[0]))
        await server.connect()
        await server.disconnect()
        await server.connect()
    once = ["connecting", "connected", "disconnecting", "disconnected"]
    assert told == once + once


@ERAS
async def test_what_is_asked_is_answered_under_the_id_that_was_given(era: str) -> None:
    async with watched(weather()[0], era=era) as (_, server):
        ids = [server.call("add", {"a": 1, "b": number}) for number in range(20)]
        assert server.view.requests[ids[0]].status == "pending"
        done = [await server.wait(each) for each in ids]
        assert [each.result["structuredContent"]["result"] for each in done] == list(range(1, 21))
        assert all(each.status == "completed" and each.took is not None and each.attempts == 1 for each in done)
        assert all(not each.aside for each in done)
        read = await server.wait(server.read("weather://oslo"))
        assert read.result["contents"][0]["text"] == "cold"
        prompt = await server.wait(server.get_prompt("greet", {"name": "Ada"}))
        assert prompt.result["messages"][0]["content"]["text"] == "Greet Ada."
        raw = await server.wait(server.request("tools/list"))
        assert raw.result["tools"][0]["name"] == "add"
        failed = await server.wait(server.call("fail"))
        assert failed.status == "completed"
        assert failed.result["isError"] is True
        with pytest.raises(LookupError, match="x"):
            await server.wait("x")


@ERAS
async def test_a_call_is_cancelled_and_ends_as_cancelled(era: str) -> None:
    async with watched(weather()[0], era=era) as (_, server):
        call = server.call("slow")
        await eventually(lambda: server.view.requests[call].progress == 1)
        assert (server.view.requests[call].total, server.view.requests[call].message) == (3, "one of three")
        assert server.cancel(call)
        ended = await server.wait(call)
        assert ended.status == "cancelled"
        assert ended.error is not None
        assert ended.error.who == "you"
        assert not server.cancel(call)


async def test_errors_say_who_is_at_fault() -> None:
    async with watched(weather()[0]) as (_, server):
        unknown = await server.wait(server.request("no/such"))
        assert unknown.error is not None
        assert (unknown.error.who, unknown.error.code) == ("the server", "not-supported")
        assert unknown.error.payload["rpc_code"] == -32601
        bad = await server.wait(server.call("add", {"a": object()}))
        assert bad.error is not None
        assert (bad.error.who, bad.error.category) == ("you", "input")
        invalid = await server.wait(server.read("not a uri"))
        assert invalid.error is not None
        assert (invalid.error.who, invalid.error.code) == ("you", "invalid-uri")
        notified = await server.wait(server.request("notifications/x"))
        assert notified.error is not None
        assert notified.error.who == "you"


@ERAS
async def test_a_change_is_shown_with_what_changed_and_how_long_it_took(era: str) -> None:
    live, cities = weather()
    async with watched(live, era=era) as (_, server):
        await server.subscribe("weather://oslo")
        view = server.view
        subscription = view.subscriptions["weather://oslo"]
        await eventually(lambda: len(subscription.versions) == 1)
        cities["oslo"] = "mild"
        await live.notify.resource_updated("weather://oslo")
        await eventually(lambda: len(subscription.versions) == 2)
        assert [version.text for version in subscription.versions] == ["cold", "mild"]
        change = view.changes.last
        assert change is not None
        assert [hop.name for hop in change.hops][-2:] == ["received", "read"]
        assert change.fresh_in is not None
        assert (change.before, change.content) == (subscription.versions[0].seq, subscription.versions[1].seq)
        assert not subscription.stale
        await server.unsubscribe("weather://oslo")
        assert view.subscriptions == {}
        assert len(view.contents["weather://oslo"]) == 2


async def test_what_a_prefix_covers_is_read_when_it_changed() -> None:
    live, cities = weather()
    async with watched(live) as (_, server):
        await server.subscribe("weather://*")
        cities["rome"] = "hot"
        await live.notify.resource_updated("weather://rome")
        await eventually(lambda: "weather://rome" in server.view.contents)
        (version,) = server.view.contents["weather://rome"]
        assert version.text == "hot"
        assert version.change == server.view.changes[0].seq
        assert server.view.subscriptions["weather://*"].updates == 1
        assert all(each.aside for each in server.view.requests.values())


async def test_a_list_that_changes_is_told_by_what_is_different() -> None:
    live, _ = weather()
    async with watched(live) as (session, server):
        told: list[Record] = []
        session.listen(lambda record: told.append(record) if record.kind == "list" else None)

        def later() -> str:
            return "x"

        live.add_tool(later)
        await eventually(lambda: "later" in server.view.tools)
        (record,) = [each for each in told if each.data["list"] == "tools"]
        assert [item["name"] for item in record.data["added"]] == ["later"]
        assert (record.data["changed"], record.data["removed"], record.data["total"]) == ([], [], 5)
        assert record.data["order"][-2:] == ["later", "wait_for_change"]  # It is not the last one.
        assert server.view.changes[-1].change == "tools-list-changed"


async def test_duplicates_and_malformed_items_are_kept_in_sight(tmp_path: Path) -> None:
    program = tmp_path / "liar.py"
    tools = [
        {"name": "good", "inputSchema": {"type": "object"}, "x-odd": 1},
        {"name": "good", "inputSchema": {"type": "object"}, "title": "again"},
        {"name": 7},
        "no item",
    ]
    program.write_text(LIAR.replace("TOOLS", json.dumps(tools)))
    async with watched([sys.executable, str(program)], era="legacy") as (_, server):
        view = server.view
        await eventually(lambda: "tools" in view.loaded_at)
        assert view.tools["good"]["x-odd"] == 1, "what the protocol does not know is shown too"
        assert [item["title"] for item in view.duplicates["tools"]] == ["again"]
        assert [each["item"] for each in view.malformed["tools"]] == [{"name": 7}, "no item"]
        assert view.stderr[0].text == "hello from the liar"
        await eventually(lambda: any(line.garbage for line in view.stderr))
        assert view.faults == 0


LIAR = """
import json, sys
print("hello from the liar", file=sys.stderr, flush=True)
def send(**body): print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        send(id=asked["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                     "serverInfo": {"name": "liar", "version": "1"}})
    elif asked.get("method") == "tools/list":
        send(id=asked["id"], result={"tools": TOOLS})
        print("this is no message", flush=True)
    elif "id" in asked:
        send(id=asked["id"], result={})
"""


@ERAS
async def test_a_question_waits_and_is_answered(era: str) -> None:
    async with watched(Asking(), era=era) as (_, server):
        call = server.call("greet")
        await eventually(lambda: server.view.questions)
        (question,) = server.view.questions.values()
        assert (question.kind, question.message) == ("elicitation", "Who are you?")
        assert question.deadline is not None
        assert server.view.requests[question.request or ""].title == "greet"
        with pytest.raises(ValueError, match="age"):
            server.answer(question.id, {"name": "Ada", "age": "no number"})
        server.answer(question.id, {"name": "Ada"})
        done = await server.wait(call)
        assert "Ada" in done.result["content"][0]["text"]
        assert server.view.answered[0].outcome == "answered"
        for how, outcome in (("decline", "declined"), ("dismiss", "cancelled"), ("refuse", "refused")):
            call = server.call("greet")
            await eventually(lambda: server.view.questions)
            server.refuse(next(iter(server.view.questions)), how)
            await server.wait(call)
            assert server.view.answered[-1].outcome == outcome
        call = server.call("greet")
        await eventually(lambda: server.view.questions)
        server.cancel(call)
        await eventually(lambda: not server.view.questions)
        assert server.view.answered[-1].outcome == "no longer wanted"


async def test_what_cannot_be_reached_is_said_and_tried_again() -> None:
    async with watched("http://127.0.0.1:1/mcp") as (_, server):
        assert server.view.words.startswith("not reached; trying again")
        assert server.view.error is not None
        assert (server.view.error.who, server.view.error.code) == ("the network", "connect-failed")
        await server.reconnect()
        assert server.view.words.startswith("not reached; trying again")
        await server.disconnect()
        assert server.view.words == "not connected"


@pytest.mark.parametrize(
    ("target", "who", "words"),
    [
        ("ftp://nowhere", "you", "gave up: "),
        (["/no/such/program"], "you", "gave up: "),
        ([sys.executable, "-c", "raise SystemExit(3)"], "the server", "gave up: "),
    ],
)
async def test_what_can_never_be_connected_to_is_given_up(target: object, who: str, words: str) -> None:
    async with watched(target) as (_, server):
        await eventually(lambda: server.view.state == "disconnected")
        assert server.view.words.startswith(words)
        assert server.view.error is not None
        assert server.view.error.who == who
        failed = await server.wait(server.call("x"))
        assert failed.status == "error"


async def test_before_it_is_connected_nothing_can_be_asked() -> None:
    async with Session() as session:
        server = await session.add(ConnectionSpec("it", weather()[0]), connect=False)
        assert server.view.words == "not connected"
        with pytest.raises(NotConnected):
            await server.subscribe("a://1")
        assert (await server.wait(server.call("add"))).error is not None
        await server.disconnect()


async def test_a_server_without_subscriptions_says_so() -> None:
    async with watched(Library(is_live=False).server) as (_, server):
        with pytest.raises(NotSupported):
            await server.subscribe("note://1")


async def test_servers_are_added_removed_and_changed() -> None:
    async with Session() as session:
        one = await session.add(ConnectionSpec("one", weather()[0]))
        two = await session.add(ConnectionSpec("two", weather()[0], era="legacy"))
        with pytest.raises(ValueError, match="already has a server 'one'"):
            await session.add(ConnectionSpec("one", weather()[0]))
        await one.connect()
        await two.connect()
        assert list(session.view.servers) == ["one", "two"]
        await one.change(ConnectionSpec("one", Library().server))
        await eventually(lambda: one.view.state == "connected" and "t1" in one.view.tools)
        assert list(one.view.tools) == ["t1", "t2", "t3", "t4", "t5"]
        await session.remove("two")
        assert list(session.view.servers) == ["one"]
        assert session.record("two", "log", {}) is None
        await session.add(ConnectionSpec("two", weather()[0]))
        assert session.view.servers["two"].state in ("disconnected", "connecting")


async def test_reconnecting_keeps_the_subscriptions() -> None:
    async with watched(weather()[0]) as (_, server):
        await server.subscribe("weather://oslo")
        await server.reconnect()
        assert server.view.state == "connected"
        assert list(server.view.subscriptions) == ["weather://oslo"]


async def test_what_changed_while_only_the_stream_was_lost_is_shown() -> None:
    library = Forgetful()
    async with on_the_web(library) as url, watched(url) as (_, server):
        await server.subscribe("note://1")
        await eventually(lambda: "note://1" in server.view.contents and "tools" in server.view.loaded_at)
        connected_at = server.view.connected_at
        library.texts["note://1"], library.tools[0] = "new", "t0"  # Nobody is told.
        library.handler.close()
        await eventually(lambda: len(server.view.changes) == 2)
        changes = {change.change: change for change in server.view.changes}
        assert [change.away for change in server.view.changes] == [True, True]
        assert changes["resource-updated"].uri == "note://1"
        assert changes["tools-list-changed"].items == ListDifference(["t0"], ["t1"])
        assert server.view.connected_at == connected_at


async def test_a_reader_who_was_away_gets_the_rest_or_is_told_that_it_is_too_much() -> None:
    async with Session(limits=SessionLimits(records=10)) as session:
        await session.add(ConnectionSpec("it", weather()[0]), connect=False)
        for number in range(30):
            session.record("it", "log", {"data": number})
        assert session.seq == 31
        missed = session.since(28)
        assert missed is not None
        assert [record.data["data"] for record in missed] == [27, 28, 29]
        assert session.since(31) == []
        assert session.since(21) is not None
        assert session.since(20) is None
        assert session.since(32) is None


async def test_a_listener_that_fails_harms_nobody_and_one_that_left_hears_nothing() -> None:
    async with Session() as session:
        await session.add(ConnectionSpec("it", weather()[0]), connect=False)
        heard: list[Record] = []
        session.listen(lambda _: 1 / 0)
        unlisten = session.listen(heard.append)
        session.record("it", "log", {})
        unlisten()
        session.record("it", "log", {})
        assert [record.seq for record in heard] == [2]


@ERAS
async def test_a_session_that_was_kept_replays_to_the_same_store(era: str, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    live, cities = weather()
    async with Session(journal=path) as session:
        server = await session.add(ConnectionSpec("it", live, era=era))
        await server.connect()
        await server.subscribe("weather://oslo")
        for number in range(5):
            cities["oslo"] = f"{number} degrees"
            await live.notify.resource_updated("weather://oslo")
            await server.wait(server.call("add", {"a": number, "b": 1}))
        await eventually(lambda: not server.view.subscriptions["weather://oslo"].stale)
    (saved,) = list_sessions(path)
    assert saved.servers == ("it",)
    assert replay(load_session(path, saved.id)) == session.view


async def test_secrets_are_not_in_the_records() -> None:
    secret = "s3cr3t-t0ken-of-mine"
    tell = f"import sys; print({secret!r}, file=sys.stderr); raise SystemExit(1)"
    entry = ServerEntry(
        "it",
        command=sys.executable,
        args=("-c", tell.replace(secret, "${KEY}"), "--token", secret),
        env={"API_KEY": secret},
        timeouts={"connect": 20},
    )
    async with Session(environ={"KEY": secret}) as session:
        server = await session.add(entry)
        await server.connect()
        await eventually(lambda: server.view.state == "disconnected" and len(server.view.stderr))
        failed = await server.wait(server.call("x", {"password": secret}))
        assert failed.status == "error"
        records = session.since(0)
        assert records is not None
        assert all(secret not in record.to_line() for record in records)
        assert server.view.entry is not None
        assert server.view.entry["env"] == {"API_KEY": "***"}


async def test_liveness_checks_do_not_push_out_what_matters() -> None:
    async with watched([sys.executable, "-m", "tests.client.peers", "live"], env=environment(), cwd=ROOT) as (
        _,
        server,
    ):
        view = server.view
        before = view.counts["messages"].total
        answered = view.last_answer_at or 0.0
        await eventually(lambda: (view.last_answer_at or 0.0) > answered)
        assert view.counts["messages"].total == before
        assert (await server.wait(server.request("server/discover"))).status == "completed"
        assert view.counts["messages"].total == before + 2


async def test_a_completion_is_asked_for_aside() -> None:
    live, _ = weather()

    async with watched(live) as (_, server):
        with pytest.raises(Exception, match="completion"):
            await server.complete("prompt", "greet", "name", "A")
        assert all(each.aside for each in server.view.requests.values())


async def test_a_list_is_loaded_again_and_the_log_level_set() -> None:
    library = Library()
    async with watched(library.server) as (_, server):
        library.tools.append("t6")
        await server.client.list_tools()
        assert list(server.view.tools)[-1] == "t6"
        await server.set_log_level("debug")


@ERAS
async def test_http_exchanges_are_shown_without_secrets_and_without_liveness_checks(era: str) -> None:
    live, _ = weather()
    async with (
        serving(live.streamable_http_app()) as port,
        watched(f"http://127.0.0.1:{port}/mcp", era=era, headers={"X-Mine": "s3cr3t-of-mine"}) as (session, server),
    ):
        view = server.view
        call = await server.wait(server.call("add", {"a": 1, "b": 2}))
        assert call.status == "completed"
        (asked,) = [each for each in view.messages if each.method == "tools/call" and each.kind == "request"]
        exchange = next(each for each in view.exchanges if each.id == asked.exchange)
        await eventually(lambda: not exchange.open)
        assert (exchange.method, exchange.status) == ("POST", 200)
        assert exchange.request_headers["x-mine"] == "***"
        assert exchange.took is not None
        assert exchange.received > 0
        assert all(each.url and each.method for each in view.exchanges)
        before = view.counts["exchanges"].total
        answered = view.last_answer_at or 0.0
        await eventually(lambda: (view.last_answer_at or 0.0) > answered)
        assert view.counts["exchanges"].total == before
        assert all("s3cr3t-of-mine" not in record.to_line() for record in session.since(0) or [])
        await server.reconnect()
        ids = [each.id for each in view.exchanges]
        assert len(set(ids)) == len(ids)


async def test_what_is_too_large_is_cut_and_says_so() -> None:
    server = LiveServer("large")

    @server.tool()
    def much(size: int) -> str:
        return "x" * size

    limits = SessionLimits(record_bytes=2_000, content_bytes=10_000)
    async with Session(limits=limits) as session:
        inspected = await session.add(ConnectionSpec("it", server), connect=False)
        await inspected.connect()
        whole = await inspected.wait(inspected.call("much", {"size": 3_000}))
        assert whole.result["content"][0]["text"] == "x" * 3_000
        message = [each for each in inspected.view.messages if each.method == "tools/call"][-1]
        assert message.body["cut"] is True
        assert message.size > 3_000
        assert message.kind == "response"
        part = await inspected.wait(inspected.call("much", {"size": 20_000}))
        assert part.result["cut"] is True
        assert part.result["head"].startswith('{"')
        assert part.result_size > 10_000


async def test_what_could_not_be_kept_is_told(tmp_path: Path) -> None:
    async with Session(journal=tmp_path / "sessions.db") as session:
        await session.add(ConnectionSpec("it", weather()[0]), connect=False)
        assert session.journal is not None
        session.journal._missed = 7
        session.record("it", "log", {})
        assert session.view.servers["it"].missed == 7


@pytest.mark.skipif(sys.platform == "win32", reason="There are no signals to ask with.")
async def test_a_command_that_does_not_mind_its_closed_input_is_soon_asked_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.client.transports.stdio.GRACE", 60.0)
    program, note = tmp_path / "stubborn.py", tmp_path / "note"
    program.write_text(STUBBORN)
    with anyio.fail_after(40):
        async with watched([sys.executable, str(program), str(note)]) as (_, server):
            assert server.view.state == "connected"
    assert note.read_text() == "asked to end"


STUBBORN = """
import json, pathlib, signal, sys
def end(*_):
    pathlib.Path(sys.argv[1]).write_text("asked to end")
    raise SystemExit
signal.signal(signal.SIGTERM, end)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
    elif "id" in asked:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
while True:
    signal.pause()
"""

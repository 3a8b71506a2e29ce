"""Every endpoint's main path, against a real server, and what it says to bad input."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.http.page import Page, finished, opened, plan_in
from tests.inspector.http.sample import PICTURE, SCRIPT, sample
from tests.inspector.jobs import jobs

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def page(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Page]:
    async with opened(plan_in(tmp_path_factory.mktemp("inspector"))) as page:
        server, note = sample()
        await page.add(server)
        page.note, page.server = note, server  # type: ignore[attr-defined]
        yield page


async def subscribed(page: Page, uri: str) -> Any:
    """The view of a subscription whose content was read."""
    view = page.session.servers["demo"].view
    if uri not in view.subscriptions:
        await page.post("/api/servers/demo/subscribe", {"uri": uri})
    await page.until(lambda: uri in view.contents and len(view.contents[uri]) > 0)
    return view.subscriptions[uri]


async def test_a_snapshot_says_what_is_known(page: Page) -> None:
    snapshot = await page.get("/api/snapshot")
    (facts,) = [each for each in snapshot["servers"] if each["name"] == "demo"]
    assert facts["state"] == "connected"
    assert facts["words"].startswith("connected")
    assert facts["transport"] == "memory"
    assert facts["era"] in ("modern", "legacy")
    assert facts["lists"]["tools"]["total"] == 4
    assert facts["counts"]["message"]["kept"] > 0
    assert snapshot["seq"] >= facts["counts"]["message"]["total"]


async def test_messages_are_searched_by_what_is_in_their_bodies(page: Page) -> None:
    started = await page.post("/api/servers/demo/call", {"tool": "add", "arguments": {"a": 4711}})
    await finished(page, "demo", started["id"])
    found = await page.get("/api/servers/demo/search", text="4711")
    (seq,) = found["hits"]
    record = await page.get(f"/api/record/{seq}")
    assert record["data"]["body"]["params"]["arguments"] == {"a": 4711}
    assert record["data"]["answer"]["result"]["structuredContent"] == {"total": 4713}
    assert found["searched"] > 1
    assert (await page.get("/api/servers/demo/search", text="no-such-text-anywhere"))["hits"] == {}


async def test_a_call_has_the_metadata_that_the_user_gives_it(page: Page) -> None:
    given = {"tool": "add", "arguments": {"a": 1}, "meta": {"example.org/trace": "abc"}}
    started = await page.post("/api/servers/demo/call", given)
    await finished(page, "demo", started["id"])
    assert (await page.get("/api/servers/demo/search", text="example.org/trace"))["hits"]


async def test_rules_with_a_mistake_are_refused_and_the_old_ones_stay(page: Page) -> None:
    rules = [{"sampling": "*", "reply": "Paris"}]
    await page.post("/api/servers/demo/rules", {"rules": rules})
    problem = await page.post("/api/servers/demo/rules", {"rules": [{"sampling": "*"}]}, 400)
    assert "rule 1" in problem["error"]["message"]
    assert await page.get("/api/servers/demo/rules") == {"rules": rules, "roots": []}
    await page.post("/api/servers/demo/rules", {"rules": []})


async def test_lists_have_all_items(page: Page) -> None:
    for name, length in (("tools", 4), ("resources", 4), ("templates", 1), ("prompts", 1)):
        found = await page.get(f"/api/servers/demo/list/{name}")
        assert len(found["items"]) == length
        assert found["malformed"] == found["duplicates"] == []


async def test_a_tool_is_called_and_its_result_fetched(page: Page) -> None:
    started = await page.post("/api/servers/demo/call", {"tool": "add", "arguments": {"a": 40}})
    facts = await finished(page, "demo", started["id"])
    assert facts["status"] == "completed"
    assert facts["title"] == "add"
    assert facts["result"]["structuredContent"] == {"total": 42}
    assert facts["problems"] == []
    assert facts["ms"] > 0


async def test_a_call_that_is_a_task_has_its_facts_and_is_followed_by_its_id(page: Page) -> None:
    await page.add(jobs(), "jobs")
    view = page.session.servers["jobs"].view
    started = await page.post("/api/servers/jobs/call", {"tool": "reindex", "arguments": {}})
    request = view.requests[started["id"]]
    await page.until(lambda: request.task is not None and request.task.message is not None)
    facts = await page.get(f"/api/servers/jobs/requests/{started['id']}")
    assert (facts["status"], facts["state"], facts["task"]["status"]) == ("in_progress", "working", "working")
    assert facts["task"]["ends"] > facts["task"]["created_at"]
    (known,) = [each for each in (await page.get("/api/snapshot"))["servers"] if each["name"] == "jobs"]
    assert (known["tasks"], known["running"]) == (1, 0)
    (row,) = [each for each in (await page.get("/api/rows"))["rows"] if each.get("task_id")]
    assert (row["id"], row["state"], row["task_id"]) == (started["id"], "working", facts["task"]["id"])
    assert await page.post("/api/servers/jobs/task", {"id": facts["task"]["id"]}) == started
    await page.post("/api/servers/jobs/call", {"tool": "go_on", "arguments": {}})
    facts = await finished(page, "jobs", started["id"])
    assert (facts["state"], facts["task"]["pending"]) == ("completed", False)
    wrong = await page.post("/api/servers/jobs/task", {}, status=400)
    assert "id" in wrong["error"]["message"]


async def test_an_error_of_a_tool_is_text_and_nothing_more(page: Page) -> None:
    started = await page.post("/api/servers/demo/call", {"tool": "fail", "arguments": {}})
    facts = await finished(page, "demo", started["id"])
    assert facts["status"] == "completed"
    assert facts["result"]["isError"] is True
    assert SCRIPT in json.dumps(facts["result"])


async def test_resources_prompts_and_any_request_are_asked_for(page: Page) -> None:
    read = await page.post("/api/servers/demo/read", {"uri": "item://x"})
    assert (await finished(page, "demo", read["id"]))["result"]["contents"][0]["text"] == "x"
    greeting = await page.post("/api/servers/demo/prompt", {"name": "greet", "arguments": {"name": "Ada"}})
    assert "Ada" in json.dumps((await finished(page, "demo", greeting["id"]))["result"])
    raw = await page.post("/api/servers/demo/request", {"method": "tools/list", "params": {}})
    assert len((await finished(page, "demo", raw["id"]))["result"]["tools"]) == 4


async def test_a_request_that_waits_for_an_answer_is_answered(page: Page) -> None:
    view = (await page.add(sample()[0], "asks", "legacy")).view
    started = await page.post("/api/servers/asks/call", {"tool": "ask", "arguments": {}})
    await page.until(lambda: bool(view.questions))
    (facts,) = [each for each in (await page.get("/api/snapshot"))["servers"] if each["name"] == "asks"]
    ((known, question),) = facts["questions"].items()
    assert question["kind"] == "elicitation"
    assert question["message"] == "Who is there?"
    assert view.requests[question["request"]].method == "tools/call"
    wrong = await page.post("/api/servers/asks/answer", {"id": known, "result": {"action": "perhaps"}}, 400)
    assert wrong["error"]["code"] == "bad-answer"
    answer = {"action": "accept", "content": {"name": "Ada"}}
    await page.post("/api/servers/asks/answer", {"id": known, "result": answer})
    assert "Ada" in json.dumps((await finished(page, "asks", started["id"]))["result"])
    gone = await page.post("/api/servers/asks/answer", {"id": known, "result": answer}, 404)
    assert gone["error"]["code"] == "no-such-question"


async def test_a_question_can_be_declined_and_a_call_cancelled(page: Page) -> None:
    view = page.session.servers["asks"].view
    started = await page.post("/api/servers/asks/call", {"tool": "ask", "arguments": {}})
    await page.until(lambda: bool(view.questions))
    await page.post("/api/servers/asks/refuse", {"id": next(iter(view.questions)), "how": "decline"})
    assert "decline" in json.dumps((await finished(page, "asks", started["id"]))["result"])
    started = await page.post("/api/servers/asks/call", {"tool": "ask", "arguments": {}})
    await page.until(lambda: bool(view.questions))
    assert await page.post("/api/servers/asks/cancel", {"id": started["id"]}) == {"cancelled": True}
    assert (await finished(page, "asks", started["id"]))["status"] == "cancelled"


async def test_what_changed_is_a_difference_with_versions(page: Page) -> None:
    subscription = await subscribed(page, "note://one")
    page.note["text"] = "one\nthree\n"  # type: ignore[attr-defined]
    await page.server.notify.resource_updated("note://one")  # type: ignore[attr-defined]
    await page.until(lambda: len(subscription.versions) == 2)
    versions = (await page.get("/api/servers/demo/versions", uri="note://one"))["versions"]
    old, new = (each["version"] for each in versions)
    diff = await page.get("/api/servers/demo/diff", **{"uri": "note://one", "from": old, "to": new})
    marks = [(line["mark"], "".join(word["text"] for word in line["words"])) for line in diff["hunks"][0]["lines"]]
    assert marks == [(" ", "one"), ("-", "two"), ("+", "three")]
    assert (await page.get("/api/servers/demo/content", uri="note://one"))["contents"][0]["text"] == "one\nthree\n"
    earlier = await page.get("/api/servers/demo/content", uri="note://one", version=old)
    assert earlier["contents"][0]["text"] == "one\ntwo\n"
    change = page.session.servers["demo"].view.changes.last
    assert change is not None
    record = await page.get(f"/api/record/{change.seq}")
    assert record["data"]["times"]["received"] > 0
    assert change.fresh_in is not None
    assert change.fresh_in > 0
    await page.post("/api/servers/demo/unsubscribe", {"uri": "note://one"})


async def test_bytes_are_shown_in_a_sandbox_and_never_run(page: Page) -> None:
    kinds = {
        "page://hostile": ("text/html; charset=utf-8", SCRIPT.encode()),
        "strange://kind": ("text/plain; charset=utf-8", b"alert(1)"),
        "picture://dot": ("image/png", PICTURE),
    }
    for uri, (kind, body) in kinds.items():
        await subscribed(page, uri)
        response = await page.http.get("/api/servers/demo/blob", params={"uri": uri})
        assert response.headers["content-type"] == kind
        assert body in response.content
        policy = response.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'")
        assert "allow-scripts" not in policy
        assert "script-src" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_bytes_of_what_a_request_returned_are_there_too(page: Page) -> None:
    read = await page.post("/api/servers/demo/read", {"uri": "picture://dot"})
    await finished(page, "demo", read["id"])
    response = await page.http.get("/api/servers/demo/blob", params={"request": read["id"]})
    assert response.content == PICTURE
    missing = await page.http.get("/api/servers/demo/blob", params={"request": read["id"], "index": 7})
    assert missing.status_code == 404


async def test_rows_are_the_past_in_order(page: Page) -> None:
    found: list[Any] = []
    after, more = 0, True
    while more:
        chunk = await page.get("/api/rows", after=after, limit=7)
        assert len(chunk["rows"]) <= 7
        found += chunk["rows"]
        after, more = chunk["to"], chunk["more"]
    numbers = [row["seq"] for row in found]
    assert numbers == sorted(numbers)
    assert {"message", "state", "request"} <= {row["kind"] for row in found}
    message = next(row for row in found if row["kind"] == "message")
    whole = await page.get(f"/api/record/{message['seq']}")
    assert whole["data"]["body"]["jsonrpc"] == "2.0"


async def test_forms_come_from_schemas_and_values_are_checked(page: Page) -> None:
    made = await page.get("/api/servers/demo/tools/add/form")
    assert [each["name"] for each in made["field"]["fields"]] == ["a", "b"]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (await page.post("/api/form", {"schema": schema}))["field"]["kind"] == "object"
    wrong = await page.post("/api/check", {"schema": schema, "value": {"n": "x"}})
    message = 'n: expected an integer, got "x"'
    assert wrong["problems"] == [{"path": ["n"], "place": "n", "message": message, "fault": "value"}]


async def test_a_request_is_copied_as_json_python_and_for_a_shell(page: Page) -> None:
    asked = {"server": "demo", "kind": "call", "tool": "add", "arguments": {"a": 1}}
    text = (await page.post("/api/snippet", {**asked, "as": "json"}))["text"]
    assert json.loads(text)["params"] == {"name": "add", "arguments": {"a": 1}}
    python = (await page.post("/api/snippet", {**asked, "as": "python"}))["text"]
    compile(python, "snippet.py", "exec")
    assert "call_tool('add', {'a': 1})" in python
    assert "add" in (await page.post("/api/snippet", {**asked, "as": "curl"}))["text"]


async def test_calls_are_saved_and_deleted(page: Page) -> None:
    call = {"name": "forty-two", "server": "demo", "kind": "call", "data": {"tool": "add", "arguments": {"a": 40}}}
    saved = await page.post("/api/saved", call)
    assert (await page.get("/api/saved"))["saved"] == [saved]
    await page.send("DELETE", f"/api/saved/{saved['id']}")
    assert (await page.get("/api/saved"))["saved"] == []
    assert (await page.send("DELETE", f"/api/saved/{saved['id']}", status=404))["error"]["code"] == "no-such-call"


async def test_sessions_are_named_exported_imported_compared_and_deleted(page: Page) -> None:
    named = await page.post("/api/sessions/save", {"name": "A crash"})
    assert named["name"] == "A crash"
    assert named["current"] is True
    text = (await page.http.get(f"/api/sessions/{named['id']}/export")).text
    assert json.loads(text.splitlines()[0])["tidings"] == "session"
    taken = await page.post("/api/sessions/import", {"text": text, "name": "A copy"})
    assert taken["records"] == len(text.splitlines()) - 1
    compared = await page.post("/api/sessions/compare", {"a": named["id"], "b": taken["id"]})
    assert "demo" in [each["name"] for each in compared["servers"]]
    listed = await page.get("/api/sessions")
    assert {each["name"] for each in listed["sessions"]} == {"A crash", "A copy"}
    await page.send("DELETE", f"/api/sessions/{taken['id']}")
    assert (await page.send("DELETE", f"/api/sessions/{named['id']}", status=409))["error"]["code"] == "session-runs"
    assert (await page.post("/api/sessions/import", {"text": "nonsense"}, 400))["error"]["code"] == "not-a-session"


async def test_the_catalog_is_changed_and_keeps_its_secrets(page: Page, tmp_path: Path) -> None:
    entry = {"name": "far", "url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer s3cret-s3cret"}}
    added = await page.post("/api/catalog", entry)
    assert "s3cret" not in json.dumps(added)
    listed = await page.get("/api/catalog")
    assert "s3cret" not in json.dumps(listed)
    shown = next(each for each in listed["entries"] if each["name"] == "far")
    await page.send("PUT", "/api/catalog/far", {**shown, "tidings": {"autoConnect": False, "logLevel": "debug"}})
    kept = Path(listed["path"]).read_text()
    assert "Bearer s3cret-s3cret" in kept
    assert "debug" in kept
    # Whoever may change where an entry leads must not thereby learn what it holds.
    stolen = await page.send("PUT", "/api/catalog/far", {**shown, "url": "http://evil.example/mcp"}, 409)
    assert stolen["error"]["code"] == "catalog"
    copy = await page.post("/api/catalog/far/clone", {})
    assert copy["name"] == "far copy"
    exported = await page.get("/api/catalog/export")
    assert "s3cret" not in json.dumps(exported)
    for name in ("far", "far copy"):
        await page.send("DELETE", f"/api/catalog/{name}")
    assert "far" not in page.session.servers
    text = json.dumps({"mcpServers": {"pasted": {"command": "true"}}})
    assert (await page.post("/api/catalog/import", {"text": text}))["added"] == ["pasted"]
    assert isinstance((await page.get("/api/clients"))["clients"], list)
    other = await page.post("/api/catalog/import", {"path": str(tmp_path / "x.json")}, 404)
    assert other["error"]["code"] == "no-such-file"


async def test_the_connection_is_ended_and_made_anew(page: Page) -> None:
    server, _ = sample()
    added = await page.add(server, "second")
    await page.post("/api/servers/second/disconnect")
    assert added.view.state == "disconnected"
    refused = await page.post("/api/servers/second/subscribe", {"uri": "note://one"}, 409)
    assert refused["error"]["code"] == "not-connected"
    assert refused["error"]["who"] == "you"
    await page.post("/api/servers/second/connect")
    await page.until(lambda: added.view.state == "connected")
    await page.post("/api/servers/second/reconnect")
    assert added.view.state == "connected"


async def test_help_pages_are_served_by_code(page: Page) -> None:
    assert "not-connected" in (await page.get("/api/help"))["codes"]
    assert "NotConnected" in (await page.get("/api/help/not-connected"))["text"]
    assert (await page.http.get("/api/help/..%2fREADME")).status_code == 404


BAD: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/api/servers/dem/list/tools", None, 404, "no-such-server"),
    ("GET", "/api/servers/demo/list/toolz", None, 404, "no-such-list"),
    ("POST", "/api/servers/demo/call", {"tool": "ad"}, 404, "no-such-tool"),
    ("POST", "/api/servers/demo/call", {}, 400, "bad-body"),
    ("POST", "/api/servers/demo/call", {"tool": 5}, 400, "bad-body"),
    ("POST", "/api/servers/demo/call", {"tool": "add", "arguments": []}, 400, "bad-body"),
    ("POST", "/api/servers/demo/prompt", {"name": "greet", "arguments": {"name": 5}}, 400, "bad-body"),
    ("POST", "/api/servers/demo/log-level", {"level": "loud"}, 404, "no-such-level"),
    ("POST", "/api/servers/demo/subscribe", {"uri": ""}, 400, "bad-body"),
    ("GET", "/api/servers/demo/requests/none", None, 404, "no-such-request"),
    ("GET", "/api/servers/demo/content", None, 400, "bad-query"),
    ("GET", "/api/servers/demo/content?uri=x:y", None, 404, "no-such-content"),
    ("GET", "/api/servers/demo/tools/nope/form", None, 404, "no-such-tool"),
    ("GET", "/api/rows?after=x", None, 400, "bad-query"),
    ("GET", "/api/rows?after=-1", None, 400, "bad-query"),
    ("GET", "/api/record/999999999", None, 404, "no-such-record"),
    ("GET", "/api/nothing", None, 404, "http-404"),
    ("POST", "/api/hello", {}, 405, "http-405"),
    ("POST", "/api/saved", {"name": "n", "server": "s", "kind": "dance", "data": {}}, 404, "no-such-kind"),
    ("POST", "/api/catalog", {"name": "x"}, 400, "bad-target"),
    ("POST", "/api/catalog", {"command": "x"}, 400, "bad-body"),
    ("PUT", "/api/catalog/none", {"command": "x"}, 404, "no-such-server"),
    ("POST", "/api/sessions/compare", {"a": "x", "b": "y"}, 404, "no-such-session"),
    ("GET", "/api/sessions/77/export", None, 404, "no-such-session"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), BAD)
async def test_bad_input_is_told_with_its_place(  # noqa: PLR0917 - as pytest gives them
    page: Page, method: str, path: str, body: Any, status: int, code: str
) -> None:
    response = await page.http.request(method, path, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert error["message"].endswith(".")
    assert error["who"] == "you"


async def test_the_nearest_names_are_told(page: Page) -> None:
    error = (await page.post("/api/servers/demo/call", {"tool": "ad"}, 404))["error"]
    assert error["cure"] == "Did you mean add?"
    assert error["payload"] == {"close": ["add"]}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"tool": NaN}', b"[" * 100_000, b'{"a":' * 50_000]
)
async def test_what_is_no_object_is_refused(page: Page, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = await page.http.post("/api/servers/demo/call", content=body, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] in ("bad-json", "bad-body")


async def test_a_body_that_is_too_large_is_refused(page: Page) -> None:
    async def endless() -> AsyncGenerator[bytes]:
        for _ in range(64):
            yield b" " * 2**20

    headers = {"Content-Type": "application/json"}
    declared = await page.http.post("/api/check", content=b" " * (33 * 2**20), headers=headers)
    assert declared.status_code == 413
    streamed = await page.http.post("/api/check", content=endless(), headers=headers)
    assert streamed.json()["error"]["code"] == "body-too-large"

"""Two sessions side by side."""

from typing import Any

from tests.inspector.recorded import Writer
from tidings.inspector.http.api.saved_sessions import compare_sessions
from tidings.inspector.records import Record
from tidings.inspector.view.fold import replay


def told(
    *, version: str, tools: list[dict[str, Any]], answers: dict[str, Any], took: float, name: str = "it"
) -> list[Record]:
    writer = Writer(name)
    writer("hello", server_info={"name": "s", "version": version}, capabilities={"tools": {}})
    writer("list", list="tools", added=tools)
    for number, (query, answer) in enumerate(answers.items()):
        times = {"created_at": 1.0, "completed_at": 1.0 + took}
        data: dict[str, Any] = {"params": {"name": "search", "arguments": {"q": query[0]}}, "status": "completed"}
        if isinstance(answer, str):
            data |= {"status": "error", "error": {"code": answer, "message": "no"}}
        else:
            data["result"] = (answer if isinstance(answer, dict) else {"value": answer}) | {"_meta": {"at": version}}
        writer("request", id=f"r{number}", method="tools/call", **data, **times)
    writer("request", id="aside", method="tools/list", aside=True, status="completed")
    writer("request", id="running", method="tools/call", status="in_progress")
    writer("change", change="resource-updated", uri="a://1")
    return writer.records


def test_what_is_different_is_found() -> None:
    old = told(version="1", tools=[{"name": "a"}, {"name": "b"}], answers={"x1": 1, "x2": 2, "y": 3}, took=0.5)
    new = told(
        version="2",
        tools=[{"name": "b", "title": "B"}, {"name": "c"}],
        answers={"x1": 1, "x2": 9, "z": "request-failed"},
        took=0.75,
        name="other",
    )
    (server,) = compare_sessions(replay(old), replay(new))["servers"]
    assert not server["same"]
    assert list(server["facts"]) == ["server_info"]
    tools = server["lists"]["tools"]
    assert (tools["added"], tools["removed"], tools["changed_total"]) == (["c"], ["a"], 1)
    (changed,) = tools["changed"]
    assert (changed["name"], changed["diff"]["words"]) == ("b", "2 lines added, 1 removed")
    rows = [
        (row["difference"], row.get("words"), (row["new"] or row["old"])["params"]["arguments"])
        for row in server["requests"]
    ]
    assert rows == [
        ("same", None, {"q": "x"}),
        ("differs", "", {"q": "x"}),
        ("only_new", None, {"q": "z"}),
        ("only_old", None, {"q": "y"}),
    ]
    assert server["counts"] == {"all": 4, "same": 1, "differs": 1, "only_new": 1, "only_old": 1}
    assert server["requests"][1]["diff"]["added"] == 1
    assert server["changes"] == {"a://1": [1, 1]}
    assert server["errors"] == {"request-failed": [0, 1]}


def test_the_same_session_is_the_same() -> None:
    records = told(version="1", tools=[{"name": "a"}], answers={"x": 1, "y": "request-failed"}, took=1)
    (server,) = compare_sessions(replay(records), replay(records))["servers"]
    assert server["same"]
    assert server["counts"] == {"all": 2, "same": 2}


def test_a_request_that_took_much_longer_is_slower() -> None:
    slow = [told(version="1", tools=[], answers={"x": 1, "y": 2}, took=took) for took in (0.1, 0.31)]
    (server,) = compare_sessions(*map(replay, slow))["servers"]
    assert server["same"]
    assert [(row["difference"], row["words"]) for row in server["requests"]] == [("slower", "3.1 times as long")] * 2


def test_another_outcome_is_named() -> None:
    asked = {"x": {"isError": False}, "y": {"isError": False}}
    old, new = (
        told(version="1", tools=[], answers=answers, took=1)
        for answers in (asked, {"x": {"isError": True}, "y": "request-failed"})
    )
    (server,) = compare_sessions(replay(old), replay(new))["servers"]
    assert [row["words"] for row in server["requests"]] == ["isError", "request-failed"]


def test_servers_are_compared_by_name_where_there_are_several() -> None:
    def two(*names: str) -> list[Record]:
        return [Record(seq, 1.0, name, "hello", {}) for seq, name in enumerate(names, 1)]

    comparison = compare_sessions(replay(two("a", "b")), replay(two("b", "c")))
    assert [server["name"] for server in comparison["servers"]] == ["b"]
    assert (comparison["only_old"], comparison["only_new"]) == (["a"], ["c"])

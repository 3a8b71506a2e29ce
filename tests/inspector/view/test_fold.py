"""What the faces read is what the records add up to, whatever a server says."""

from typing import Any

import pytest
from hypothesis import given

from tests.inspector.recorded import Writer, sessions
from tidings.inspector.http.rows import row_of_record
from tidings.inspector.records import Record, SessionLimits
from tidings.inspector.view.fold import fold, fold_session, replay
from tidings.inspector.view.items import Hop, ListDifference, TaskView
from tidings.inspector.view.view import ServerView, SessionView


def folded(writer: Writer, **limits: int) -> ServerView:
    view = ServerView(writer.server, limits=SessionLimits(**limits), clock=lambda: 1100.0)
    for record in writer.records:
        fold(view, record)
    assert view.faults == 0
    return view


@given(sessions())
def test_no_data_whatsoever_breaks_the_fold(records: list[Record]) -> None:
    view = SessionView(clock=lambda: 2000.0)
    for record in records:
        fold_session(view, record)
        for server in view.servers.values():
            assert server.faults == 0
            assert isinstance(server.words, str)
            assert isinstance(server.title, str)
            assert server.counts
            for change in server.changes:
                assert change.hops is not None
            for subscription in server.subscriptions.values():
                assert subscription.stale in (True, False)
    assert view.seq == len(records)
    assert view == replay(records)


AGAIN = "not reached; trying again now"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([], "not connected"),
        ([("state", {"state": "connecting"})], "connecting"),
        ([("state", {"state": "connected"})], "connected"),
        ([("state", {"state": "connected"}), ("answer-time", {"ms": 2.0})], "connected, answered 98 s ago"),
        (
            [("state", {"state": "connected"}), ("state", {"state": "error", "error": {}, "next_retry": 1102.4})],
            "lost; trying again in 3 s",
        ),
        ([("state", {"state": "error", "error": {}, "next_retry": 1100.0})], "not reached; trying again now"),
        ([("state", {"state": "error", "error": {}})], "not reached"),
        ([("state", {"state": "error", "error": {}}), ("state", {"state": "connecting"})], AGAIN),
        ([("state", {"state": "disconnected", "error": {"message": "No such file."}})], "gave up: No such file."),
        (
            [("state", {"state": "disconnected", "error": {"message": "It wants one.", "code": "sign-in-needed"}})],
            "sign in needed",
        ),
        ([("state", {"state": "disconnecting"})], "disconnecting"),
    ],
)  # fmt: skip
def test_the_connection_is_told_in_words(told: list[tuple[str, dict[str, Any]]], words: str) -> None:
    writer = Writer()
    for kind, data in told:
        writer(kind, **data)
    assert folded(writer).words == words.replace("98 s", "1 min")


def test_a_list_is_folded_from_what_is_different() -> None:
    writer = Writer()
    writer("list", list="tools", added=[{"name": "a"}, {"name": "b"}, {"name": "c"}], total=3)
    writer("list", list="tools", removed=["b"], changed=[{"name": "a", "title": "A"}], added=[{"name": "d"}], total=3)
    view = folded(writer)
    assert list(view.tools.values()) == [{"name": "a", "title": "A"}, {"name": "c"}, {"name": "d"}]
    writer(
        "list", list="tools", order=["d", "a", "c"], duplicates=[{"name": "a"}], malformed=[{"item": 1, "reason": "x"}]
    )
    view = folded(writer)
    assert list(view.tools) == ["d", "a", "c"]
    assert view.duplicates == {"tools": [{"name": "a"}]}
    assert view.malformed == {"tools": [{"item": 1, "reason": "x"}]}
    writer("list", list="tools", error={"message": "no"})
    view = folded(writer)
    assert list(view.tools) == ["d", "a", "c"]
    assert view.list_errors["tools"].message == "no"


def test_a_change_of_a_list_says_what_is_different() -> None:
    writer = Writer()
    writer("state", state="connected")
    writer("list", list="tools", added=[{"name": "a"}, {"name": "b"}])
    writer("list", list="prompts", added=[{"name": "p"}])
    writer("change", 2000.0, change="tools-list-changed", times={"received": 2000.0})
    assert folded(writer).changes[0].items is None
    writer("list", 2000.5, list="tools", removed=["b"], changed=[{"name": "a", "title": "A"}], added=[{"name": "d"}])
    (change,) = folded(writer).changes
    assert change.items == ListDifference(["d"], ["b"], ["a"])
    writer("list", 2009.0, list="tools")
    assert (change.away, folded(writer).changes[0].fresh_in) == (False, 0.5)
    writer("list", list="tools", added=[{"name": f"n{number}"} for number in range(100)])
    (change,) = folded(writer).changes
    assert change.items is not None
    assert change.items.words == "30 added; b removed; a changed; 71 more"


@pytest.mark.parametrize("noticed", [True, False])
def test_what_changed_while_the_server_was_away_is_a_change_of_its_own(noticed: bool) -> None:
    writer = Writer()
    uri = "note://a"
    writer("state", state="connected")
    writer("subscriptions", uris=[uri])
    writer("content", uri=uri, contents=[{"uri": uri, "text": "old"}], hash="1", size=3)
    writer("list", list="tools", added=[{"name": "a"}])
    writer("list", list="resources", added=[{"uri": uri}])
    writer("change", change="tools-list-changed")
    assert [change.away for change in folded(writer).changes] == [False]
    if noticed:
        writer("state", state="error", error={})
        writer("state", state="connected")
    else:  # It was back before that.
        writer("changes-missed")
    writer("list", list="tools", removed=["a"], added=[{"name": "b"}])
    writer("list", list="resources")
    writer("content", uri=uri, contents=[{"uri": uri, "text": "new"}], hash="2", size=3)
    view = folded(writer)
    told, tools, note = view.changes
    assert (told.away, told.items) == (False, None)
    assert (tools.away, tools.change, tools.items) == (True, "tools-list-changed", ListDifference(["b"], ["a"]))
    assert (note.away, note.uri, note.before, note.content) == (True, uri, 3, 10 + noticed)
    assert view.subscriptions[uri].updates == 1
    assert not view.subscriptions[uri].stale
    assert len(view.notifications) == 1


def test_a_response_knows_its_request_and_how_long_it_took() -> None:
    writer = Writer()
    writer("message", 10.0, incoming=False, body={"id": 1, "method": "tools/list"}, size=10)
    writer("message", 10.5, incoming=True, body={"id": 1, "method": "roots/list"}, size=10)
    assert len(folded(writer).asked) == 2
    writer("message", 12.0, incoming=True, body={"id": 1, "result": {}}, size=10)
    view = folded(writer)
    request, asked, response = view.messages
    assert (request.kind, asked.kind, response.kind) == ("request", "request", "response")
    assert response.method == "tools/list"
    assert (request.partner, response.partner) == (3, 1)
    assert request.took == response.took == 2.0
    assert view.last_answer_ms == 2000.0
    assert list(view.asked.values()) == [asked]


def test_an_exchange_is_put_together_from_what_is_told_of_it() -> None:
    writer = Writer()
    writer("exchange", id=1, method="POST", url="http://h/mcp", request_headers={"accept": "*"}, began=1.0)
    writer("exchange", id=1, status=200, response_headers={}, is_stream=False, answered=1.5)
    assert folded(writer).exchanges[0].open
    writer("exchange", id=1, ended=2.0, error=None, received=5)
    (exchange,) = folded(writer).exchanges
    assert (exchange.method, exchange.status, exchange.took, exchange.received) == ("POST", 200, 1.0, 5)
    assert not exchange.open


def test_a_change_knows_its_hops_and_the_versions_around_it() -> None:
    writer = Writer()
    uri = "note://a"
    writer("subscriptions", uris=[uri])
    writer("content", uri=uri, contents=[{"uri": uri, "text": "old"}], hash="1", size=3)
    times = {"source": 20.0, "published": 20.009, "received": 20.010}
    writer("change", 20.010, change="resource-updated", uri=uri, times=times, cursor="e:1", merged=2)
    assert folded(writer).subscriptions[uri].stale
    writer("content", 20.014, uri=uri, contents=[{"uri": uri, "text": "new"}], hash="2", size=3, change=3, changes=3)
    view = folded(writer)
    (change,) = view.changes
    assert [hop.name for hop in change.hops] == ["source", "published", "received", "read"]
    assert change.hops[0] == Hop("source", 20.0, None)
    assert change.fresh_in == pytest.approx(0.014)
    subscription = view.subscriptions[uri]
    assert [version.text for version in subscription.versions] == ["old", "new"]
    assert (change.before, change.content) == (2, 4)
    assert (subscription.updates, subscription.merged, subscription.stale) == (1, 1, False)
    assert view.notifications[0].method == "notifications/resources/updated"


def test_content_that_is_the_same_is_no_new_version() -> None:
    writer = Writer()
    writer("content", uri="a://1", contents=[{"text": "x"}], hash="1", size=1)
    writer("content", 50.0, uri="a://1", contents=[{"text": "x"}], hash="1", size=1)
    (version,) = folded(writer).contents["a://1"]
    assert version.confirmed == 50.0


@pytest.mark.parametrize("uri", ["a://1", "a://1/part", "a://1?x", "a://1/part/of#it"])
def test_an_update_of_a_part_is_one_of_the_whole(uri: str) -> None:
    writer = Writer()
    writer("subscriptions", uris=["a://1", "a://*", "b://*"])
    writer("change", change="resource-updated", uri=uri)
    view = folded(writer)
    assert {name: each.updates for name, each in view.subscriptions.items()} == {"a://1": 1, "a://*": 1, "b://*": 0}


def test_contents_are_bounded_together() -> None:
    writer = Writer()
    for number in range(20):
        writer("content", uri=f"a://{number % 4}", contents=[{"text": "x"}], hash=str(number), size=1_000)
    view = folded(writer, contents_bytes=8_000, contents=3)
    assert sum(ring.bytes for ring in view.contents.values()) <= 8_000
    assert len(view.contents) == 3
    assert view.contents["a://3"].last is not None
    assert view.contents_dropped > 0


def test_what_the_client_reads_by_itself_never_pushes_out_the_users_calls() -> None:
    writer = Writer()
    writer("request", id="mine", method="tools/call", params={"name": "t"}, status="completed", result=1, result_size=8)
    for number in range(50):
        writer("request", id=f"r{number}", method="resources/read", aside=True, status="completed")
    view = folded(writer, requests=20)
    assert view.requests["mine"].result == 1
    assert len(view.requests) == 6
    assert view.counts["requests"].total == 51
    assert view.counts["requests"].dropped == 45


def test_results_are_bounded_in_bytes() -> None:
    writer = Writer()
    for number in range(10):
        writer("request", id=f"r{number}", status="completed", result="…", result_size=1_000)
    writer("request", id="running", status="in_progress")
    view = folded(writer, ring_bytes=3_000)
    assert list(view.requests) == ["r7", "r8", "r9", "running"]


def test_a_task_has_the_status_of_its_call_until_that_ends() -> None:
    writer = Writer()
    writer("request", id="r1", method="tools/call", params={"name": "index"}, status="in_progress", created_at=1_000.0)
    writer("task", request="r1", id="t1", status="working", created_at=1_000.0, ttl=60.0, pending=True)
    writer("task", request="r1", id="t1", status="input_required", message="Which?", listening=True)
    request = folded(writer).requests["r1"]
    assert (request.status, request.state) == ("in_progress", "input_required")
    task = TaskView("t1", "input_required", "Which?", 1_000.0, None, 60.0, None, listening=True, pending=True)
    assert request.task == task
    assert task.ends == 1_060.0
    writer("request", id="r1", status="cancelled")
    assert folded(writer).requests["r1"].state == "left"  # It goes on at the server.
    writer("task", request="r1", id="t1", pending=False)
    assert folded(writer).requests["r1"].state == "cancelled"
    writer("task", request="unknown", id="t2")
    writer("task", request="r1", status="working")
    assert folded(writer).faults == 0


def test_a_question_waits_until_it_is_answered() -> None:
    writer = Writer()
    writer("question", id="ask-1", kind="elicitation", params={}, message="Which?", deadline=1400.0)
    view = folded(writer)
    assert list(view.questions) == ["ask-1"]
    writer("question", id="ask-2", kind="roots")
    writer("answered", id="ask-1", outcome="declined")
    view = folded(writer)
    assert list(view.questions) == ["ask-2"]
    assert (view.answered[0].question.message, view.answered[0].outcome) == ("Which?", "declined")


def test_a_flood_is_bounded_and_what_is_dropped_is_counted() -> None:
    view = ServerView("x", limits=SessionLimits(logs=100, messages=100))
    for seq in range(1, 10_001):
        kind = "log" if seq % 2 else "message"
        fold(
            view, Record(seq, 1.0, "x", kind, {"level": "info", "data": "x", "incoming": True, "body": {}, "size": 50})
        )
    assert view.counts["logs"].dropped == view.counts["messages"].dropped == 4_900
    assert len(view.logs) == len(view.messages) == 100


def test_a_server_that_was_removed_is_gone_and_may_come_again() -> None:
    writer = Writer()
    writer("server", what="added", entry={"name": "vault"})
    writer("log", data="x")
    writer("server", what="removed")
    view = replay(writer.records)
    assert view.servers == {}
    writer("server", what="added", entry={"name": "vault"})
    view = replay(writer.records)
    assert len(view.servers["vault"].logs) == 0


def rows(writer: Writer, **limits: int) -> list[dict[str, Any] | None]:
    """The rows that the page gets for each record."""
    view = ServerView(writer.server, limits=SessionLimits(**limits), clock=lambda: 1100.0)
    made: list[dict[str, Any] | None] = []
    for record in writer.records:
        fold(view, record)
        made.append(row_of_record(record, view))
    assert view.faults == 0
    return made


def test_a_request_and_its_answer_are_one_row_which_says_how_it_ended() -> None:
    writer = Writer()
    call = {"id": 1, "method": "tools/call", "params": {"name": "add"}}
    writer("message", 1.0, incoming=False, body=call, size=40)
    progress = {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}
    writer("message", 1.1, incoming=True, body=progress, size=20)
    writer("message", 1.5, incoming=True, body={"id": 1, "result": {"isError": True}}, size=60)
    writer(
        "message", 2.0, incoming=False, body={"id": 2, "method": "resources/read", "params": {"uri": "a://1"}}, size=9
    )
    writer("message", 2.1, incoming=True, body={"id": 2, "error": {"code": -32002}}, size=9)
    writer("message", 3.0, incoming=False, body={"id": 3, "method": "tools/list"}, size=9)
    writer(
        "message", 3.1, incoming=False, body={"method": "notifications/cancelled", "params": {"requestId": 3}}, size=9
    )
    asked, told, ended, _, refused, _, _ = rows(writer)
    assert asked is not None
    assert told is not None
    assert (asked["subject"], told["subject"]) == ("add", "add")
    assert "outcome" not in asked
    assert ended == asked | {"outcome": "isError", "answer_size": 60, "ms": 500.0}
    assert refused is not None
    assert (refused["subject"], refused["outcome"]) == ("a://1", "-32002")
    assert folded(writer).messages[5].outcome == "cancelled"


@pytest.mark.parametrize("token", [{}, [1], None, True, 1.5])
def test_a_token_that_is_none_breaks_nothing(token: object) -> None:
    writer = Writer()
    for name in ("progress", "cancelled"):
        params = {"progressToken": token, "requestId": token}
        writer("message", incoming=True, body={"method": f"notifications/{name}", "params": params}, size=1)
    assert len(folded(writer).messages) == 2


def test_large_bodies_are_cut_before_a_message_is_dropped() -> None:
    writer = Writer()
    for number in range(80):
        writer("message", float(number), incoming=True, body={"id": number, "result": "x" * 50_000}, size=50_000)
        writer("message", float(number), incoming=False, body={"id": number, "method": "ping"}, size=40)
    view = folded(writer, message_bytes=1_000_000)
    assert view.messages.dropped == 0
    assert view.messages.bytes <= 1_000_000
    assert view.messages[0].body["cut"] is True
    assert view.messages[0].body["id"] == 0
    assert view.messages[-2].body["result"] == "x" * 50_000
    assert view.whole_since is not None
    assert view.messages.since(0)[-1].at > view.whole_since


def test_changes_that_one_read_answers_are_one_row() -> None:
    writer = Writer()
    writer("change", 1.0, change="resource-updated", uri="a://1", times={"received": 1.0})
    writer("change", 1.2, change="resource-updated", uri="a://1", times={"received": 1.2}, merged=1)
    writer("change", 1.3, change="resource-updated", uri="a://1", times={"received": 1.3}, merged=2)
    writer("content", 1.5, uri="a://1", contents=[], hash="h", size=1, change=3, changes=3)
    writer("change", 2.0, change="resource-updated", uri="a://1", times={"received": 2.0})
    first, second, third, read, later = rows(writer)
    assert first is not None
    assert later is not None
    assert [each and each["seq"] for each in (first, second, third, read, later)] == [1, 1, 1, 1, 5]
    assert read == first | {"merged": 2, "fresh_ms": 500.0}
    assert len(folded(writer).changes) == 2


def test_the_first_list_is_no_difference() -> None:
    writer = Writer()
    writer("state", 1.0, state="connected")
    writer("change", 1.1, change="tools-list-changed")
    writer("list", 1.2, list="tools", added=[{"name": "a"}], total=1)
    writer("change", 1.3, change="tools-list-changed")
    writer("list", 1.4, list="tools", added=[{"name": "b"}], total=2)
    first, second = folded(writer).changes
    assert first.different == "nothing is different"
    assert second.different == "b added"


def test_announcements_of_a_list_that_one_load_answers_share_a_row() -> None:
    writer = Writer()
    writer("state", 1.0, state="connected")
    writer("list", 1.1, list="tools", added=[{"name": "a"}])
    for each in range(3):
        writer("change", 2.0 + each / 10, change="tools-list-changed")
    writer("list", 2.5, list="tools", added=[{"name": "b"}])
    writer("change", 3.0, change="tools-list-changed")
    sent = [each and (each["seq"], each["merged"]) for each in rows(writer)[2:]]
    assert sent == [(3, 0), (3, 1), (3, 2), (3, 2), (7, 0)]
    first, second = folded(writer).changes
    assert (first.different, second.merged) == ("b added", 0)
    writer("state", state="error", error={})
    writer("state", 4.0, state="connected")
    writer("change", 4.1, change="tools-list-changed")  # It is another one than that before the loss.
    assert len(folded(writer).changes) == 3

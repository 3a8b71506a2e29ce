"""`tidings events` and `tidings receive`: a server with events, a receiver, and commands between them."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import HERE, Done, free_port, line_of, listens, started, tidings, until
from tests.forking import Forked

CREATED = "order.created"
SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    port = free_port()
    process = Forked(str(HERE / "orders.py"), str(port), f"sqlite://{tmp_path_factory.mktemp('bus')}/bus.db")
    try:
        until(lambda: listens(port) or process.poll() is not None)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.stop()


def events(*args: str, **env: Any) -> Done:
    return tidings("events", *args, **env)


def order(url: str, name: str) -> None:
    assert tidings("call", url, "order", f"name={name}").code == 0


def test_the_events_of_a_server_are_listed(url: str) -> None:
    done = events("list", url)
    assert CREATED in done.out
    assert "[shop]" in done.out
    assert {each["name"] for each in events("list", url, "--json").json["events"]} >= {CREATED, "tools.list_changed"}


def test_a_poll_goes_on_from_the_cursor_of_the_one_before(url: str) -> None:
    cursor = events("poll", url, CREATED, "--json").json["cursor"]
    order(url, "cup")
    done = events("poll", url, CREATED, "shop=oslo", "--since", cursor)
    assert '{"order": "cup", "shop": "oslo"}' in done.out
    assert "Continue with: --since" in done.err
    assert events("poll", url, CREATED, "shop=rome", "--since", cursor).out == ""


@pytest.mark.parametrize(
    ("args", "said", "code"),
    [
        (["poll", "order.creatd"], "Did you mean 'order.created'?", 1),
        (["poll", CREATED, "shop"], "write NAME=VALUE", 1),
        (["poll", CREATED, "--since", "forged"], "not given out by this server", 1),
        (["subscribe", CREATED, "http://10.0.0.1/"], "not on the public internet", 1),
        (["subscribe", CREATED, "https://example.org/", "--secret", "short"], "whsec_", 1),
        (["redeliver", "sub_none", "evt_none"], "You have no webhook subscription 'sub_none'", 1),
    ],
)
def test_a_mistake_is_named_with_its_cure(url: str, args: list[str], said: str, code: int) -> None:
    done = events(args[0], url, *args[1:])
    assert said in done.err
    assert (done.code != 0, code, done.out) == (True, 1, "")


def test_tail_prints_each_event_and_goes_on_where_it_ended(url: str, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state.db"), "--json")
    cursor = events("poll", url, CREATED, "--json").json["cursor"]
    for name in ("1", "2"):
        order(url, name)
    with started("events", "tail", url, CREATED, "--since", cursor, *state) as tail:
        assert [json.loads(line_of(tail))["data"]["order"] for _ in range(2)] == ["1", "2"]
    order(url, "3")
    with started("events", "tail", url, CREATED, *state) as tail:
        said = json.loads(line_of(tail))["data"]["order"]
        if said == "2":  # The command ended before it noted that this was handled.
            said = json.loads(line_of(tail))["data"]["order"]
        assert said == "3"


def test_a_webhook_runs_a_command_and_what_failed_is_delivered_again(url: str, tmp_path: Path) -> None:
    port, out = free_port(), tmp_path / "out"
    program = f"cat >> {out}; echo >> {out}; test ! -e {tmp_path}/broken"
    hook = f"http://127.0.0.1:{port}/"
    receive = ("receive", "--port", str(port), "--exec", program, "--state", str(tmp_path / "handed.db"))
    with started(*receive, TIDINGS_WEBHOOK_SECRET=SECRET):
        until(lambda: listens(port))
        made = events("subscribe", url, CREATED, hook, "--json", TIDINGS_WEBHOOK_SECRET=SECRET).json
        assert "secret" not in made
        order(url, "tea")
        until(lambda: out.exists() and "tea" in out.read_text())
        (tmp_path / "broken").touch()
        order(url, "cake")
        until(lambda: '"parked"' in events("deliveries", url, made["id"], "--failed", "--json").out)
        (tmp_path / "broken").unlink()
        shown = events("deliveries", url)
        assert "HTTP 500" in shown.out
        failed = events("deliveries", url, "--failed", "--json").json["deliveries"][0]
        assert events("redeliver", url, made["id"], failed["eventId"]).code == 0
        until(lambda: events("deliveries", url, "--json").json["subscriptions"][0]["state"] == "active")
        assert events("unsubscribe", url, CREATED, hook).code == 0
        assert events("deliveries", url, "--json").json["subscriptions"] == []
    lines = [json.loads(line) for line in out.read_text().splitlines() if line]
    assert [each["data"]["order"] for each in lines] == ["tea", "cake", "cake", "cake"]


def test_a_new_secret_is_printed_for_the_receiver_and_never_by_the_server(url: str) -> None:
    with started("receive", "--port", str(port := free_port())) as receiving:
        secret = line_of(receiving, "stderr").split("whsec_")[1].split(" ")[0]
        until(lambda: listens(port))
        wrong = events("subscribe", url, CREATED, f"http://127.0.0.1:{port}/")
        assert wrong.code != 0
        assert "whsec_" not in wrong.err
        right = events("subscribe", url, CREATED, f"http://127.0.0.1:{port}/", "--secret", f"whsec_{secret}")
        assert right.out.startswith("sub_")
        order(url, "pie")
        assert json.loads(line_of(receiving))["data"]["order"] == "pie"
        events("unsubscribe", url, CREATED, f"http://127.0.0.1:{port}/")

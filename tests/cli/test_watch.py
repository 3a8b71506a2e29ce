"""`tidings watch`: real changes, a server that is killed and comes back, and programs that are run for each content."""

import json
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.running import WEATHER, free_port, line_of, odd, serving, started, tidings, until


@pytest.fixture(scope="module")
def http() -> Generator[str]:
    port = free_port()
    with serving(port):
        yield f"http://127.0.0.1:{port}/mcp"


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_each_new_content_is_a_line_of_json(http: str, era: str) -> None:
    tidings("call", http, "report", "city=oslo", "text=rain")
    with started("watch", http, "weather://oslo", "--json", "--count", "2", "--era", era) as watching:
        assert json.loads(line_of(watching))["contents"][0]["text"] == "rain"
        tidings("call", http, "report", "city=oslo", "text=sun")
        second = json.loads(line_of(watching))
        assert (second["uri"], second["contents"][0]["text"]) == ("weather://oslo", "sun")
        assert watching.wait(20) == 0


def test_only_what_changed_is_printed_on_demand(http: str) -> None:
    tidings("call", http, "report", "city=bergen", "text=a\nb\nc")
    with started("watch", http, "weather://bergen", "--diff", "--count", "2") as watching:
        assert [line_of(watching) for _ in range(3)] == ["a\n", "b\n", "c\n"]
        tidings("call", http, "report", "city=bergen", "text=a\nB\nc")
        assert [line_of(watching) for _ in range(5)] == ["@@ -1,3 +1,3 @@\n", " a\n", "-b\n", "+B\n", " c\n"]
        assert watching.wait(20) == 0


def test_a_program_gets_each_content_and_its_uri(http: str) -> None:
    tidings("call", http, "report", "city=oslo", "text=fog")
    done = tidings("watch", http, "weather://oslo", "--exec", 'echo "$TIDINGS_URI: $(cat)"; exit 3', "--count", "1")
    assert (done.code, done.out) == (0, "weather://oslo: fog\n")
    assert "ended with exit code 3 for weather://oslo" in done.err


def test_a_server_that_is_killed_is_waited_for_and_its_news_arrive(tmp_path: Path) -> None:
    port, kept = free_port(), tmp_path / "oslo"
    url = f"http://127.0.0.1:{port}/mcp"
    kept.write_text("rain")
    with serving(port, str(kept)) as pid, started("watch", url, "weather://oslo") as watching:
        assert line_of(watching) == "rain\n"
        os.kill(pid, signal.SIGKILL)
        assert "The connection was lost" in line_of(watching, "stderr")
        kept.write_text("snow")
        with serving(port, str(kept)):
            assert line_of(watching) == "snow\n"
            while "The server is still away" in (line := line_of(watching, "stderr")):
                assert "Trying again in" in line
            assert "The server is back." in line
            watching.send_signal(signal.SIGINT)
            assert watching.wait(20) == 130


def test_a_command_is_watched_and_ended_with_it() -> None:
    done = tidings("watch", WEATHER, "weather://oslo", "weather://bergen", "--count", "2")
    assert done.code == 0
    assert sorted(done.out.splitlines()) == ["rain", "rain", "— weather://bergen", "— weather://oslo"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("http://127.0.0.1:9/mcp", "x://y"), 3, "Nothing answers"),
        ((odd(), "note://nine"), 2, "not found"),
        ((odd(), "note://*"), 2, "stands for many"),
        ((odd(), "note://one", "--diff", "--exec", "cat"), 2, "--diff and --exec exclude each other"),
        ((odd("dies"), "note://one"), 4, "exit code 3"),
        ((odd(),), 2, "URI"),
    ],
)
def test_what_cannot_be_watched_is_said_at_once(args: tuple[str, ...], code: int, words: str) -> None:
    done = tidings("watch", *args)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_a_server_without_subscriptions_is_asked_again_and_again() -> None:
    done = tidings("watch", odd(), "note://two", "--count", "1")
    assert (done.code, done.out) == (0, "a\nb\n")
    assert "has no subscriptions" in done.err


def test_a_command_that_is_not_in_quotes_is_told_to_be() -> None:
    done = tidings("watch", "python", "server.py", "Notes", "vault://recent")
    assert done.code == 2
    assert "'Notes' is not a URI: it has no scheme. Put a command in quotes" in done.err


def test_a_subscription_that_is_refused_is_told(tmp_path: Path) -> None:
    server = tmp_path / "picky.py"
    server.write_text(
        "from tidings import LiveServer\n"
        "from tidings.errors import NotSubscribable\n"
        "mcp = LiveServer('picky')\n"
        "@mcp.resource('n://a')\n"
        "def a() -> str: return 'x'\n"
        "@mcp.on_first_subscriber('n://a')\n"
        "async def refuse(*_): raise NotSubscribable('not this one')\n"
        "mcp.run()\n"
    )
    with started("watch", str(server), "n://a") as process:
        assert line_of(process) == "x\n"
        assert "The server refuses a subscription: " in line_of(process, "stderr")


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_a_misspelt_resource_is_told_once_with_the_one_that_is_meant(tmp_path: Path, era: str) -> None:
    server = tmp_path / "one.py"
    server.write_text(
        "from tidings import LiveServer\n"
        "mcp = LiveServer('one')\n"
        "@mcp.resource('note://lobby')\n"
        "def lobby() -> str: return 'x'\n"
        "mcp.run()\n"
    )
    done = tidings("watch", str(server), "note://loby", "--era", era)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("note://loby") == 1, done.err
    assert "Did you mean 'note://lobby'?" in done.err


@pytest.mark.parametrize(
    "words", [("watch", odd(), "note://one"), ("receive", "--port", "0")], ids=["watch", "receive"]
)
def test_a_command_that_follows_ends_when_the_reader_of_its_output_goes(words: tuple[str, ...]) -> None:
    with started(*words) as following:
        _ = line_of(following, "stdout" if words[0] == "watch" else "stderr")  # It runs, and has nothing more to print.
        assert following.stdout is not None
        following.stdout.close()
        assert following.wait(20) == 141


def test_a_command_that_prints_nothing_goes_on_without_a_reader(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with started("watch", odd(), "note://one", "--exec", f"echo >> {ran}") as watching:
        assert watching.stdout is not None
        watching.stdout.close()
        until(ran.exists)
        assert watching.poll() is None

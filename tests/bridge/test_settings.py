"""What a bridge is told: servers, durations, calls to watch; and every mistake with its line."""

import json
from pathlib import Path

import pytest

from tidings.bridge.group import arguments_for, call_uri, contents_of, split_call
from tidings.bridge.settings import (
    BadSettings,
    CallWatch,
    call_watch,
    owner_of_name,
    owner_of_uri,
    read_targets,
    seconds,
    server_name,
)
from tidings.bridge.upstream import Naming


def written(tmp_path: Path, servers: object) -> str:
    file = tmp_path / "mcp.json"
    file.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}, indent=1))
    return str(file)


def test_servers_get_short_names_that_are_told_apart(tmp_path: Path) -> None:
    file = written(tmp_path, {"My Notes": {"command": "x"}, "github": {"url": "http://localhost/mcp"}})
    targets = ["npx -y @scope/server-filesystem@1.2.3 /tmp", "https://mcp.example.com/mcp", "python weather.py", file]
    names = [spec.name for spec in read_targets([*targets, "uvx weather"], {})]
    assert names == ["server-filesystem", "example.com", "weather", "my-notes", "github", "weather-2"]


def test_a_file_says_what_is_offered(tmp_path: Path) -> None:
    section = {
        "allow": ["list_*"],
        "deny": ["list_secrets"],
        "poll": {"repo://*": "30s"},
        "timeout": "1m",
        "watch": ["list_runs repo=acme/app every=5m"],
    }
    (spec,) = read_targets([written(tmp_path, {"hub": {"command": "x", "tidings": section}})], {})
    assert [spec.offers(name) for name in ("list_runs", "list_secrets", "delete")] == [True, False, False]
    assert (spec.interval("repo://a"), spec.interval("file:///a"), spec.timeout) == (30, None, 60)
    assert spec.watches == [CallWatch("hub", "list_runs", {"repo": "acme/app"}, 300)]


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {
            "good": {"command": "x"},
            "both": {"command": "x", "url": "http://x"},
            "unset": {"command": "${NOT_SET_ANYWHERE}"},
            "typo": {"command": "x", "tidings": {"alow": [], "deny": 3}},
            "slow": {"command": "x", "tidings": {"timeout": "soon"}},
            "text": "x",
        },
    )
    with pytest.raises(BadSettings) as caught:
        read_targets([file, "file:///no"], {})
    lines = str(caught.value).splitlines()
    assert len(lines) == 7  # Two of them in one section.
    for line, (number, words) in zip(
        lines,
        [
            (6, "both a command and a url"),
            (10, "NOT_SET_ANYWHERE"),
            (13, "tidings.deny must be a list"),
            (13, "Did you mean 'allow'"),
            (20, "'soon' is not a duration"),
            (26, "must be an object"),
        ],
        strict=False,
    ):
        assert f"line {number}:" in line, line
        assert words in line, line
    wrong = {"url": {"url": "nowhere"}, "two": {"command": "x", "tidings": {"watch": ["x every=never"], "poll": 3}}}
    with pytest.raises(BadSettings) as caught:
        read_targets([written(tmp_path, wrong)], {})
    first, *others = str(caught.value).splitlines()
    assert "line 3: the server 'url': 'nowhere' does not begin with http" in first
    assert ["line 6:" in line for line in others] == [True, True]
    assert any("tidings.watch" in line and "'never' is not a duration" in line for line in others)
    for broken in ("{", "[]", "{}", '{"mcpServers": {}}'):
        with pytest.raises(BadSettings, match=r"mcp\.json"):
            read_targets([written(tmp_path, broken)], {})


@pytest.mark.parametrize(("text", "value"), [("30s", 30), ("500ms", 0.5), ("5m", 300), ("1h", 3600), ("2", 2)])
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "0s", "soon", "-1s", "1d2"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="30s"):
        seconds(text)


def test_a_call_to_watch_names_its_server_if_there_are_several() -> None:
    assert call_watch("tool:runs a='b c'", ["hub"]) == CallWatch("hub", "runs", {"a": "b c"}, 30)
    assert call_watch("hub_runs every=1m", ["hub", "two"]) == CallWatch("hub", "runs", {}, 60)
    for wrong in ("", "runs", "tool:hub_runs oops", "tool:'hub_runs"):
        with pytest.raises(ValueError, match=r"server|call to watch"):
            call_watch(wrong, ["hub", "two"])


def test_calls_have_uris_that_lead_back() -> None:
    uri = call_uri("hub", "list runs", {"b": "x&y=ü", "a": 2})
    assert uri == "call://hub/list%20runs?a=2&b=x%26y%3D%C3%BC"
    assert split_call(uri) == ("hub", "list runs", {"a": "2", "b": "x&y=ü"})
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": ["array", "null"]}}}
    assert arguments_for(schema, {"a": "2", "b": "2", "c": "[1]"}) == {"a": 2, "b": "2", "c": [1]}
    for wrong in ({"d": "1"}, {"a": "two"}):
        with pytest.raises(ValueError, match="argument"):
            arguments_for(schema, wrong)
    with pytest.raises(ValueError, match="call://SERVER/TOOL"):
        split_call("call://hub")


def test_a_result_becomes_contents() -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "QQ==", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "x://y", "text": "b"}},
    ]
    contents = contents_of("call://s/t", {"content": blocks})["contents"]
    assert [each.get("text") or each.get("blob") for each in contents] == ["a", "QQ==", "b"]
    assert {each["uri"] for each in contents} == {"call://s/t"}


def test_names_lead_back() -> None:
    taken = {"git": 0, "git_hub": 0}
    assert owner_of_name("git_hub_list", taken) == "git_hub"
    assert owner_of_name("gitlist", taken) is None
    assert owner_of_uri("git+file:///a", taken) == "git"
    assert owner_of_uri("file:///git+a", taken) is None
    assert server_name("Ü!", {}) == "server"
    naming = Naming("hub")
    assert naming.uri_back(naming.uri_out("a+b://c")) == "a+b://c"
    result = {"messages": [{"role": "user", "content": {"type": "resource_link", "uri": "a://b"}}], "x": 1}
    assert naming.result_out(result)["messages"][0]["content"]["uri"] == "hub+a://b"

"""What a user gave to connect to is understood, or refused with the reason; and its secrets are never shown."""

import base64
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastmcp
import httpx2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mcp import Client
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer

from tidings import LiveServer
from tidings.client.targets import CommandTarget, HttpTarget, ServerTarget, parse_target
from tidings.errors import BadTarget

TOKEN = "tok-3n-s3cr3t"


def refusal(target: object, **options: Any) -> str:
    with pytest.raises(BadTarget) as caught:
        parse_target(target, **options)
    assert caught.value.code == "bad-target"
    return str(caught.value)


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """A file with two servers, as applications write it."""
    file = tmp_path / "servers.json"
    entries = {
        "weather": {
            "command": "uvx",
            "args": ["weather", "--units", "${UNITS:-metric}"],
            "env": {"API_KEY": "${env:WEATHER_KEY}"},
            "cwd": "/srv",
        },
        "notes": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${NOTES_TOKEN}"},
        },
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    return file


def one_server(tmp_path: Path, entry: object, section: str = "mcpServers") -> str:
    file = tmp_path / "one.json"
    file.write_text(json.dumps({section: {"one": entry}}))
    return str(file)


# What is understood


@pytest.mark.parametrize("url", ["http://localhost:8000/mcp", "https://example.com/mcp", "HTTPS://example.com/mcp"])
def test_a_text_that_begins_with_http_is_a_url(url: str) -> None:
    assert parse_target(url) == HttpTarget(url)


def test_a_list_is_a_command() -> None:
    assert parse_target(["python", "my server.py"]) == CommandTarget("python", ("my server.py",))
    assert parse_target((Path("bin/server"), "-v")) == CommandTarget("bin/server", ("-v",))


def test_any_other_text_is_a_command_that_is_split_as_a_shell_would() -> None:
    assert parse_target("python 'my server.py' -v") == CommandTarget("python", ("my server.py", "-v"))
    assert parse_target("serve --config settings.json") == CommandTarget("serve", ("--config", "settings.json"))


def test_what_is_given_besides_a_url_goes_with_it() -> None:
    assert parse_target("http://h/mcp", token=TOKEN, headers={"X-Team": " blue "}) == HttpTarget(
        "http://h/mcp", {"X-Team": "blue", "Authorization": f"Bearer {TOKEN}"}
    )
    auth = httpx2.BasicAuth("ada", "lovelace")
    target = parse_target("http://h/mcp", auth=auth)
    assert isinstance(target, HttpTarget)
    assert target.auth is auth


def test_a_token_may_be_given_with_its_scheme() -> None:
    assert parse_target("http://h/mcp", token=f"Bearer {TOKEN}") == parse_target("http://h/mcp", token=TOKEN)


def test_what_is_given_besides_a_command_goes_with_it() -> None:
    target = parse_target(["serve"], env={"A": "1"}, cwd=Path("/srv"))
    assert target == CommandTarget("serve", (), {"A": "1"}, "/srv")


def test_a_server_of_a_file_is_found_by_its_name(servers: Path) -> None:
    environ = {"WEATHER_KEY": "w-12345", "NOTES_TOKEN": TOKEN}
    weather = parse_target(f"{servers}#weather", environ=environ)
    assert weather == CommandTarget(
        "uvx", ("weather", "--units", "metric"), {"API_KEY": "w-12345"}, "/srv", "weather", frozenset({"w-12345"})
    )
    notes = parse_target(Path(f"{servers}#notes"), environ=environ)
    assert isinstance(notes, HttpTarget)
    assert (notes.url, notes.kind, notes.name) == ("https://example.com/mcp", "http", "notes")
    assert notes.headers == {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("section", ["mcpServers", "servers"])
def test_the_only_server_of_a_file_needs_no_name(tmp_path: Path, section: str) -> None:
    file = one_server(tmp_path, {"url": "http://h/sse", "transport": "sse"}, section)
    for target in (file, Path(file)):
        found = parse_target(target)
        assert isinstance(found, HttpTarget)
        assert (found.url, found.kind, found.name) == ("http://h/sse", "sse", "one")


def test_a_file_may_be_called_anything_if_it_is_given_as_a_path(tmp_path: Path) -> None:
    file = Path(one_server(tmp_path, {"command": "serve"})).rename(tmp_path / "bob's servers")
    assert isinstance(parse_target(file), CommandTarget)


def test_the_name_of_an_existing_file_is_never_split(tmp_path: Path) -> None:
    file = Path(one_server(tmp_path, {"command": "serve"})).rename(tmp_path / "bob's servers.json")
    assert isinstance(parse_target(str(file)), CommandTarget)


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp", "streamable_http"])
def test_streamable_http_has_several_names(tmp_path: Path, kind: str) -> None:
    target = parse_target(one_server(tmp_path, {"url": "http://h/mcp", "type": kind}))
    assert isinstance(target, HttpTarget)
    assert target.kind == "http"


def test_a_file_may_begin_with_a_byte_order_mark_and_have_nulls(tmp_path: Path) -> None:
    entry = {"command": "serve", "args": None, "env": None, "cwd": None, "url": None, "type": "stdio"}
    file = tmp_path / "one.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps({"mcpServers": {"one": entry}}).encode())
    assert parse_target(file) == CommandTarget("serve", title="one")


def test_what_is_given_wins_over_the_file(tmp_path: Path) -> None:
    command = one_server(tmp_path, {"command": "serve", "env": {"A": "1", "B": "2"}, "cwd": "/a"})
    assert parse_target(command, env={"B": "3"}, cwd="/b") == CommandTarget(
        "serve", (), {"A": "1", "B": "3"}, "/b", "one"
    )
    url = one_server(tmp_path, {"url": "http://h/mcp", "headers": {"X-Team": "red", "X-Other": "1"}})
    target = parse_target(url, headers={"x-team": "blue"})
    assert isinstance(target, HttpTarget)
    assert target.headers == {"X-Other": "1", "x-team": "blue"}


@pytest.mark.parametrize("make", [MCPServer, Server, LiveServer, fastmcp.FastMCP])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_a_server_object_is_something_that_the_sdk_connects_to(make: Any, mode: str) -> None:
    target = parse_target(make("garden"))
    assert isinstance(target, ServerTarget)
    assert target.name == "garden"
    around = target.lifespan() if target.lifespan else nullcontext()
    async with around, Client(target.server, mode=mode) as client:
        assert client.server_info.name == "garden"


# What is refused


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("ftp://ada:hunter22@example.com/x", "ftp://example.com/x begins with ftp://"),
        ("ws://example.com/mcp", "begins with ws://"),
        ("http://", "has no host"),
        ("http://exa mple.com/", "has a space"),
        ("http://example.com:65536/", "has a port beyond 65535"),
        ("http://[::1/", "is not a URL: Invalid"),
        ("http://ada:hunt/er22@example.com/", "http://example.com/ is not a URL. It must"),
        ("localhost:8000/mcp", "Did you mean http://localhost:8000/mcp?"),
        ("", "The command is empty"),
        ("   ", "The command is empty"),
        ([], "The command is empty"),
        ([" "], "The command is empty"),
        (["a\0b"], "null character"),
        (["python", 3], "number 2 in this one is an object of type builtins.int"),
        (["https://example.com/mcp"], "Pass a URL as a string"),
        ("python 'server.py", "cannot be split into words: No closing quotation"),
        (None, "Cannot connect to None. Pass a URL"),
        (42, "Cannot connect to an object of type builtins.int"),
        (b"http://h", "Cannot connect to an object of type builtins.bytes"),
        ({"command": "x"}, "Cannot connect to an object of type builtins.dict"),
        (Client(MCPServer("x")), "Cannot connect to an object of type mcp.client.client.Client"),
        ("missing.json", "There is no file"),
        ("missing.json#name", "There is no file"),
    ],
)
def test_what_is_no_target_is_refused_with_the_reason(target: object, says: str) -> None:
    text = refusal(target)
    assert says in text
    assert "hunt" not in text
    assert "er22" not in text


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        (["serve"], {"headers": {"A": "b"}}, "headers= was given, but the target is a command"),
        (["serve"], {"token": TOKEN}, "token= was given, but the target is a command"),
        ("http://h/", {"env": {"A": "b"}}, "env= was given, but the target is a URL"),
        ("http://h/", {"cwd": "/"}, "cwd= was given, but the target is a URL"),
        (MCPServer("x"), {"token": TOKEN}, "token= was given, but the target is an object"),
        ("http://h/", {"headers": {"A": f"{TOKEN}\r\nB: c"}}, "The header A has a line break in it"),
        ("http://h/", {"headers": {"A": f"{TOKEN}ü"}}, "The header A has a character that HTTP does not allow"),
        ("http://h/", {"headers": {"A b": "c"}}, "'A b' is not a valid header name"),
        ("http://h/", {"headers": {"A": 1}}, "'A' is an object of type builtins.int"),
        ("http://h/", {"headers": {1: "a"}}, "a name is an object of type builtins.int"),
        ("http://h/", {"headers": [("A", "b")]}, "must be a mapping of strings to strings"),
        ("http://h/", {"token": f"{TOKEN}\n"}, "The header Authorization has a line break in it"),
        ("http://h/", {"token": ""}, "The token is empty"),
        ("http://h/", {"token": b"x"}, "token= must be a string"),
        ("http://h/", {"token": TOKEN, "auth": httpx2.BasicAuth("a", "b")}, "would get token= and auth="),
        ("http://h/", {"token": TOKEN, "headers": {"authorization": "x"}}, "token= and an Authorization header"),
        ("http://a:b@h/", {"token": TOKEN}, "token= and a user in the URL"),
        ("http://h/", {"auth": ("a", "b")}, "auth= must be an httpx2.Auth"),
        (["serve"], {"env": {"A=B": "c"}}, "a variable called 'A=B'"),
        (["serve"], {"env": {"A": "b\0"}}, "null character"),
        (["serve"], {"cwd": 3}, "cwd= must be a string"),
    ],
)
def test_what_does_not_go_with_a_target_is_refused(target: object, options: dict[str, Any], says: str) -> None:
    text = refusal(target, **options)
    assert says in text
    assert TOKEN not in text


def test_several_servers_of_a_file_have_to_be_told_apart(servers: Path) -> None:
    assert "has 2 servers" in refusal(str(servers))
    assert refusal(str(servers)).endswith("notes, weather.")
    assert "no server called 'wether'. Did you mean weather? It has: notes, weather." in refusal(f"{servers}#wether")
    assert "no server called ''. It has: notes, weather." in refusal(f"{servers}#")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON: line 1, column 2"),
        ('{"mcpServers": {},}', "Comments and commas before a closing bracket"),
        ("[]", "has no mcpServers"),
        ('{"other": 1}', "has no mcpServers"),
        ('{"mcpServers": []}', "mcpServers in"),
        ('{"servers": null}', "by name, not null"),
        ('{"mcpServers": {}}', "has no server in it"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_that_is_no_file_of_servers_is_refused(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content)
    assert says in refusal(str(file))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    assert "is not JSON" in refusal(str(tmp_path / "bytes.json"))
    assert "cannot be read" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("serve", "must be an object with a command or a url, not a string"),
        ({}, "neither a command nor a url (none)"),
        ({"serverUrl": "http://h"}, "neither a command nor a url (serverUrl)"),
        ({"command": "a", "url": "http://h"}, "both a command and a url"),
        ({"command": ["a"]}, "command must be a string, not a list"),
        ({"command": "a", "args": "b"}, "args must be a list of strings, not a string"),
        ({"command": "a", "args": [1.5]}, "args[0] must be a string, not a number"),
        ({"command": "a", "env": {"PORT": 8080}}, "env.PORT must be a string, not a number"),
        ({"command": "a", "env": {"ON": True}}, "env.ON must be a string, not true or false"),
        ({"command": "a", "env": {"ON": {}}}, "env.ON must be a string, not an object"),
        ({"command": "a", "env": ["X"]}, "env must be an object of strings, not a list"),
        ({"command": "a", "type": "http"}, "the type 'http', which does not fit. Use stdio"),
        ({"url": "http://h/", "type": "stdio"}, "the type 'stdio', which does not fit. Use http or sse"),
        ({"url": "http://h/", "type": "ws"}, "the type 'ws', which does not fit"),
        ({"url": "ftp://h/"}, "'ftp://h/' does not begin with http"),
        ({"url": "h/mcp"}, "'h/mcp' does not begin with http"),
        ({"url": "http://h/", "headers": {"A": "b\n"}}, "The header A has a line break"),
        ({"command": "a", "args": ["${SECRET}"]}, "needs the variable SECRET, which is not set"),
        ({"command": "a", "args": ["${env:SECRET}"]}, "needs the variable SECRET, which is not set"),
        ({"command": "a", "args": ["${input:key}"]}, "${input:key}, which only the application"),
    ],
)
def test_an_entry_with_a_mistake_is_refused_with_its_place(tmp_path: Path, entry: object, says: str) -> None:
    text = refusal(one_server(tmp_path, entry))
    assert says in text


def test_what_does_not_go_with_an_entry_is_refused(servers: Path) -> None:
    environ = {"WEATHER_KEY": "w-12345", "NOTES_TOKEN": TOKEN}
    assert "token= was given" in refusal(f"{servers}#weather", token=TOKEN, environ=environ)
    assert "env= was given" in refusal(f"{servers}#notes", env={"A": "b"}, environ=environ)
    assert "an Authorization header" in refusal(f"{servers}#notes", token=TOKEN, environ=environ)


def test_the_environment_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_TEST_VARIABLE", "here")
    file = one_server(tmp_path, {"command": "${TIDINGS_TEST_VARIABLE}"})
    assert "TIDINGS_TEST_VARIABLE" in refusal(file)
    assert parse_target(file, environ={"TIDINGS_TEST_VARIABLE": "there"}) == CommandTarget("there", title="one")
    assert parse_target(file, environ={"TIDINGS_TEST_VARIABLE": "${A}"}) == CommandTarget("${A}", title="one")


# What is shown


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("https://ada:lovelace@example.com:8443/mcp?key=abc#part", "https://example.com:8443/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp"),
        ("https://auth.example.com:8443/mcp", "https://auth.example.com:8443/mcp"),
        ("https://example.com/s/YWJjZGVmZ2hpams1234567890/mcp", "https://example.com/s/***/mcp"),
        ("https://example.com/s/0b9d8a8e-6f3a-4c55-9a39-3f1f2f6f0a11", "https://example.com/s/***"),
        (
            "https://example.com/the-weather-server-version-2/mcp",
            "https://example.com/the-weather-server-version-2/mcp",
        ),
        (["serve", "--token", "abc", "-v"], "serve --token *** -v"),
        (["serve", "--api-key=abc"], "serve --api-key=***"),
        (["docker", "run", "-e", "API_KEY=abc", "image"], "docker run -e API_KEY=*** image"),
        (["mcp-remote", "--header", "Authorization: Bearer abc"], "mcp-remote --header 'Authorization: ***'"),
        (["run", "--config", '{"apiKey": "abc", "n": 1}'], """run --config '{"apiKey": "***", "n": 1}'"""),
        (["pg", "postgresql://ada:lovelace@h/db?sslmode=on"], "pg postgresql://h/db"),
        (["serve", "--no-auth", "--verbose"], "serve --no-auth --verbose"),
        (["serve", "two words", ""], "serve 'two words' ''"),
        (["serve", "bell\a\x1b[31m"], "serve bell  [31m"),
    ],
)
def test_a_name_tells_what_it_is_and_nothing_secret(target: Any, name: str) -> None:
    assert parse_target(target).name == name


def test_a_long_name_is_cut() -> None:
    name = parse_target(["serve", "x" * 500]).name
    assert len(name) == 120
    assert name.endswith("x…")


def test_secrets_are_masked_in_every_shape() -> None:
    target = parse_target("http://h/mcp", headers={"Authorization": "Bearer pa'ss\"w/rd"})
    for text in ("pa'ss\"w/rd", "Bearer pa'ss\"w/rd", quote("pa'ss\"w/rd", safe=""), json.dumps("pa'ss\"w/rd")):
        assert "pa" not in target.clean(f"it is {text}!")
    basic = parse_target("http://ada:lovel%40ce@h/mcp")
    sent = base64.b64encode(b"ada:lovel@ce").decode()
    assert basic.clean(f"Basic {sent}, lovel@ce, lovel%40ce, ada") == "Basic ***, ***, ***, ada"
    keys = parse_target(["serve"], env={"PEM": "-----BEGIN-----\nabcdefgh\n-----END-----\n"})
    assert keys.clean("a line of it: abcdefgh") == "a line of it: ***"


def test_overlapping_secrets_leave_nothing() -> None:
    target = parse_target(["serve"], env={"A": "abcdef", "B": "defghi", "C": "******", "D": "x***yz"})
    assert target.clean("abcdefghi") == "***"
    assert target.clean("abcdefabcdef") == "***"
    assert target.clean("***abcdef") == "***"
    assert target.clean("xabcdefyz") == "***"


def test_a_secret_variable_is_masked_wherever_it_went(tmp_path: Path) -> None:
    entry = {"command": "serve", "args": ["${MY_KEY}", "${FOLDER}"]}
    target = parse_target(one_server(tmp_path, entry), environ={"MY_KEY": TOKEN, "FOLDER": "/srv/data"})
    assert target.clean(f"{TOKEN} /srv/data") == "*** /srv/data"


def test_who_signs_in_makes_a_difference_and_how_it_is_written_does_not() -> None:
    assert parse_target("http://h/", token="a").identity != parse_target("http://h/", token="b").identity
    assert parse_target("http://h/", token="a").identity == parse_target("http://h/", token="a").identity
    by_header = parse_target("http://h/", headers={"authorization": "Bearer a"})
    assert by_header.identity == parse_target("http://h/", token="a").identity
    assert parse_target(["a", "b"]).identity != parse_target(["a b"]).identity
    assert parse_target(["a"], env={"A": "1"}).identity != parse_target(["a"]).identity
    auth = httpx2.BasicAuth("a", "b")
    assert parse_target("http://h/", auth=auth).identity != parse_target("http://h/", auth=auth).identity
    assert parse_target(MCPServer("x")).identity == parse_target(MCPServer("x")).identity


# Hypothesis looks for a way to see a secret

ascii_secrets = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=20)
secrets = st.one_of(st.text(min_size=6, max_size=20), st.text("a*", min_size=6, max_size=8))
texts = st.text(max_size=20)


def unseen(secret: str, target: Any, before: str, after: str) -> None:
    assert len(secret.strip()) < 6 or any(secret.strip() in known for known in target.secrets)
    for text in (target.name, repr(target), str(target), f"{target!r}", target.clean(before + secret + after)):
        assert secret not in text


@given(secret=ascii_secrets, before=texts, after=texts, path=ascii_secrets)
def test_no_token_or_header_is_ever_seen(secret: str, before: str, after: str, path: str) -> None:
    assume(secret.removeprefix("Bearer ") == secret)
    url = f"http://example.com/{quote(path)}"
    unseen(secret, parse_target(url, token=secret), before, after)
    unseen(f"Bearer {secret}", parse_target(url, token=secret), before, after)
    unseen(secret, parse_target(url, headers={"X-Any": secret}), before, after)


@given(secret=secrets, before=texts, after=texts)
def test_no_password_or_query_is_ever_seen(secret: str, before: str, after: str) -> None:
    quoted = quote(secret, safe="")
    for url in (f"http://ada:{quoted}@example.com/mcp", f"http://example.com/mcp?q={quoted}"):
        unseen(secret, parse_target(url), before, after)
        unseen(quoted, parse_target(url), before, after)


@given(secret=secrets, before=texts, after=texts, name=st.sampled_from(["--token", "--api-key", "--Password"]))
def test_no_variable_or_secret_option_is_ever_seen(secret: str, before: str, after: str, name: str) -> None:
    assume("\0" not in secret)
    assume(not secret.startswith("--"))
    unseen(secret, parse_target(["serve", name, secret, "--other"]), before, after)
    unseen(secret, parse_target(["serve", "--verbose"], env={"ANY": secret}), before, after)
    assume(not secret.startswith('"'))
    assume(secret == secret.lstrip())
    unseen(secret, parse_target(["serve", f"{name}={secret}"]), before, after)

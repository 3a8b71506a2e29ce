"""The configuration for each client, and a name that all of them accept."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.cli.client_config import CLIENTS, ClientServer, server_name, snippet, usage
from tidings.cli.exits import Refusal

STDIO = ClientServer("notes", ["/opt/bin/tidings", "vault", "/srv/My notes", "--read-only"])
HTTP = ClientServer("notes", url="http://127.0.0.1:8000/mcp", token="s3cret")


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("claude-desktop", {"mcpServers": {"notes": {"command": STDIO.argv[0], "args": [*STDIO.argv[1:]]}}}),
        ("cursor", {"mcpServers": {"notes": {"command": STDIO.argv[0], "args": [*STDIO.argv[1:]]}}}),
        ("vscode", {"servers": {"notes": {"type": "stdio", "command": STDIO.argv[0], "args": [*STDIO.argv[1:]]}}}),
    ],
)
def test_a_server_that_the_client_starts_is_named_by_its_command(client: str, expected: object) -> None:
    assert json.loads(snippet(client, STDIO, platform="linux")) == expected


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("cursor", {"mcpServers": {"notes": {"url": HTTP.url, "headers": {"Authorization": "Bearer s3cret"}}}}),
        (
            "vscode",
            {"servers": {"notes": {"type": "http", "url": HTTP.url, "headers": {"Authorization": "Bearer s3cret"}}}},
        ),
    ],
)
def test_a_server_that_runs_is_named_by_its_address_and_token(client: str, expected: object) -> None:
    assert json.loads(snippet(client, HTTP, platform="linux")) == expected


def test_a_server_without_a_token_needs_no_header() -> None:
    text = snippet("cursor", ClientServer("notes", url=HTTP.url), platform="linux")
    assert json.loads(text) == {"mcpServers": {"notes": {"url": HTTP.url}}}


def test_claude_code_gets_a_command_that_a_shell_takes_apart_again() -> None:
    words = shlex.split(snippet("claude-code", STDIO, platform="darwin"))
    assert words == ["claude", "mcp", "add", "--scope", "user", "notes", "--", *STDIO.argv]


def test_claude_code_gets_the_header_last_where_it_takes_nothing_else_for_headers() -> None:
    words = shlex.split(snippet("claude-code", HTTP, platform="linux"))
    assert words[-4:] == ["notes", HTTP.url, "--header", "Authorization: Bearer s3cret"]
    words = shlex.split(snippet("claude-code", ClientServer("notes", url=HTTP.url), platform="linux"))
    assert words[-2:] == ["notes", HTTP.url]


def test_the_command_for_windows_is_quoted_as_windows_does() -> None:
    argv = ["C:\\Tools\\tidings.exe", "vault", "C:\\Users\\Ann\\My notes"]
    text = snippet("claude-code", ClientServer("notes", argv), platform="win32")
    assert text.endswith('-- C:\\Tools\\tidings.exe vault "C:\\Users\\Ann\\My notes"')


def test_claude_desktop_is_not_sent_to_an_address_it_would_not_read() -> None:
    with pytest.raises(Refusal, match="Omit --http"):
        snippet("claude-desktop", HTTP, platform="linux")


@pytest.mark.parametrize(
    ("client", "platform", "place"),
    [
        ("claude-desktop", "darwin", "~/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "%APPDATA%\\Claude\\claude_desktop_config.json"),
        ("claude-desktop", "linux", "~/.config/Claude/claude_desktop_config.json"),
        ("cursor", "linux", "~/.cursor/mcp.json"),
        ("cursor", "win32", "%USERPROFILE%\\.cursor\\mcp.json"),
        ("vscode", "linux", ".vscode/mcp.json"),
        ("claude-code", "linux", "terminal"),
    ],
)
def test_it_is_said_where_the_snippet_belongs_on_this_system(client: str, platform: str, place: str) -> None:
    assert place in usage(client, platform)


@pytest.mark.parametrize(
    ("folder", "name"),
    [("My Notes", "my-notes"), ("Bücher & Co.", "bucher-co"), ("日本", "vault"), ("", "vault"), ("a" * 99, "a" * 32)],
)
def test_a_server_is_named_after_its_folder(folder: str, name: str) -> None:
    assert server_name(folder) == name


@given(st.text())
def test_every_client_takes_the_name_of_every_folder(folder: str) -> None:
    name = server_name(folder)
    assert 1 <= len(name) <= 32
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert all(name in snippet(client, ClientServer(name, ["t"]), platform="linux") for client in CLIENTS)


def test_a_token_is_not_shown_by_accident() -> None:
    assert "s3cret" not in repr(HTTP)

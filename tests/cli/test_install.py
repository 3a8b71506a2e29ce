"""`tidings install`: the entry in each client's file, nothing else changed, and what is broken left alone."""

import json
import re
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import terminal, tidings
from tidings._kit.bounded_json import parse_with_comments
from tidings.cli.client_config import Format, NotEditable, edited, has_server

ENTRY = {"command": "/bin/x", "args": ["a b", "ü"]}
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "claude-code": (".claude.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "goose": (".config/goose/config.yaml", "extensions"),
}


def read(path: Path) -> Any:
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    if path.suffix == ".yaml":
        from ruamel.yaml import YAML

        return YAML(typ="safe").load(text)
    return parse_with_comments(text)[0]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "Notes").mkdir()
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}


@pytest.mark.parametrize("client", FILES)
def test_a_vault_is_written_once_into_the_file_of_a_client(client: str, home: dict[str, str], tmp_path: Path) -> None:
    file, section = FILES[client]
    args = ["install", "vault", str(tmp_path / "Notes"), "--read-only", "--client", client]
    refused = tidings(*args, **home)
    assert (refused.code, "Add --yes" in refused.err, (tmp_path / file).exists()) == (2, True, False)
    assert "+" in refused.out
    done = tidings(*args, "--yes", **home)
    assert done.code == 0, done.err
    entry = read(tmp_path / file)[section]["notes"]
    words = [entry.get("command") or entry["cmd"], *entry["args"]]
    assert words[1:] == ["vault", str(tmp_path / "Notes"), "--read-only"]
    assert Path(words[0]).is_absolute()
    before = (tmp_path / file).read_bytes()
    again = tidings(*args, "--yes", **home)
    assert (again.code, "already has this server" in again.out) == (0, True)
    assert (tmp_path / file).read_bytes() == before
    assert [each.name for each in (tmp_path / file).parent.glob("*.bak")] == []


@pytest.mark.parametrize("client", FILES)
def test_another_server_at_an_address_takes_its_place_and_the_old_file_is_kept(
    client: str, home: dict[str, str], tmp_path: Path
) -> None:
    if client == "claude-desktop":
        done = tidings("install", "https://a.example/mcp", "--client", client, "--yes", **home)
        assert (done.code, "can only use servers that it starts itself" in done.err) == (2, True)
        return
    file, section = FILES[client]
    assert tidings("install", sys.executable, "server.py", "--name", "a", "--client", client, "--yes", **home).code == 0
    old = (tmp_path / file).read_bytes()
    (tmp_path / file).chmod(0o640)
    done = tidings("install", "https://a.example/mcp", "--name", "a", "--client", client, "--yes", **home)
    assert (done.code, "another server called a, which this replaces" in done.err) == (0, True), done.err
    entry = read(tmp_path / file)[section]["a"]
    assert "https://a.example/mcp" in entry.values()
    assert "args" not in entry
    (backup,) = (tmp_path / file).parent.glob("*.bak")
    assert backup.read_bytes() == old
    assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("client", "text", "line"),
    [
        ("cursor", '{\n "mcpServers": {\n  "a": \n }}', "line 4"),
        ("cursor", "[]", "must be an object"),
        ("zed", '{"context_servers": 5}', "must be an object"),
        ("codex", "a = 1\nb = = 2\n", "line 2"),
        ("goose", "extensions:\n  a: [1\nb: 2\n", "line 3"),
    ],
)
def test_a_broken_file_is_left_as_it_is_and_its_line_named(
    client: str, text: str, line: str, home: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / FILES[client][0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    done = tidings("install", "vault", str(tmp_path / "Notes"), "--client", client, "--yes", **home)
    assert (done.code, line in done.err, file.read_text()) == (2, True, text), done.err


def test_the_change_is_shown_and_written_when_the_user_agrees(home: dict[str, str], tmp_path: Path) -> None:
    args = ["install", "vault", str(tmp_path / "Notes"), "--client", "cursor"]
    with terminal(*args, **home) as screen:
        assert '+    "notes"' in screen.expect("Write this?")
        screen.type("n\n")
        assert screen.end()[0] == 2
    assert not (tmp_path / ".cursor/mcp.json").exists()
    with terminal(*args, **home) as screen:
        screen.expect("Write this?")
        screen.type("\n")
        assert screen.end()[0] == 0
    assert (tmp_path / ".cursor/mcp.json").exists()


@pytest.mark.parametrize(("word", "cure"), [("valt", "Did you mean 'vault'?"), ("none-such", "no program none-such")])
def test_a_program_that_is_not_there_is_not_installed(
    word: str, cure: str, home: dict[str, str], tmp_path: Path
) -> None:
    done = tidings("install", word, str(tmp_path), "--client", "cursor", "--yes", **home)
    assert (done.code, cure in done.err, (tmp_path / ".cursor/mcp.json").exists()) == (2, True, False), done.err


def test_a_vault_that_cannot_be_served_is_not_installed(home: dict[str, str], tmp_path: Path) -> None:
    done = tidings("install", "vault", str(tmp_path / "none"), "--client", "cursor", "--yes", **home)
    assert (done.code, (tmp_path / ".cursor/mcp.json").exists()) == (2, False)


@pytest.mark.parametrize(
    "before",
    [
        "",
        '{"s": {}}',
        '// head\n{\n    // own\n    "x": 1, // one\n}\n',
        '{\n  "s": {\n    "m": {"a": 1}, // one\n  },\n}',
        '{\n  "s": { // own\n  },\n}',
    ],
)
def test_what_else_is_in_a_file_stays(before: str) -> None:
    made = edited(before, "json", "s", "n", ENTRY)
    kept = parse_with_comments(before)[0] if before else {}
    assert parse_with_comments(made)[0] == {**kept, "s": {**kept.get("s", {}), "n": ENTRY}}
    assert all(word in made for word in ("// own", "// one") if word in before)
    assert edited(made, "json", "s", "n", ENTRY) == made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "s": {\n    "b": 1, // b\n    // end\n  } // s\n}', '"b": 1, // b\n    // end\n    "n": 0\n  } // s\n}'),
        ('{\n  "s": {\n    "b": 1 // b, c\n    /* , */\n  }\n}', '"b": 1, // b, c\n    /* , */\n    "n": 0\n  }\n}'),
        ('{\n  "s": { // none\n  }\n}', '"s": { // none\n    "n": 0\n  }\n}'),
    ],
)
def test_a_comment_stays_with_what_it_is_about(before: str, after: str) -> None:
    made = edited(before, "json", "s", "n", ENTRY)
    assert re.sub(r'"n": \{.*?\}', '"n": 0', made, flags=re.DOTALL).endswith(after)


@pytest.mark.parametrize(
    ("form", "before"),
    [("json", '{"s": null, "a": 1}'), ("json", '{"a": 1, "s": null}'), ("yaml", "a: !secret b\n"), ("yaml", "s:\n")],
)
def test_unusual_values_elsewhere_stay_and_a_missing_one_is_replaced(form: Format, before: str) -> None:
    made = edited(before, form, "s", "n", ENTRY)
    assert (has_server(before, form, "s", "n"), has_server(made, form, "s", "n")) == (False, True)
    assert edited(made, form, "s", "n", ENTRY) == made


@pytest.mark.parametrize(
    ("form", "text"), [("json", '{"s": []}'), ("toml", "s = []"), ("yaml", "s: []"), ("json", "[]")]
)
def test_what_should_be_an_object_and_is_not_is_left(form: Format, text: str) -> None:
    with pytest.raises(NotEditable, match="must be an object"):
        edited(text, form, "s", "n", ENTRY)


names = st.text(min_size=1, max_size=4)
values = st.recursive(st.integers() | names | st.none(), lambda each: st.lists(each) | st.dictionaries(names, each))


@given(st.dictionaries(names, values), st.dictionaries(names, values), names, st.sampled_from([None, 0, 1, 4]))
def test_any_document_keeps_everything_else(
    document: dict[str, Any], servers: dict[str, Any], name: str, indent: int | None
) -> None:
    given_ = {**document, "s": servers}
    made = edited(json.dumps(given_, indent=indent), "json", "s", name, ENTRY)
    assert json.loads(made) == {**given_, "s": {**servers, name: ENTRY}}


def test_toml_keeps_its_comments_and_replaces_one_table() -> None:
    before = '# mine\nmodel = "x"\n\n[mcp_servers.a]\ncommand = "old"\n\n[mcp_servers.a.env]\nK = "v"\n\n'
    before += "[other] # o\nz = 1\n"
    made = edited(before, "toml", "mcp_servers", "a", ENTRY)
    assert tomllib.loads(made) == {"model": "x", "other": {"z": 1}, "mcp_servers": {"a": ENTRY}}
    assert "# mine" in made
    assert "# o" in made
    with pytest.raises(NotEditable, match="by hand"):
        edited('mcp_servers = {a = {command = "old"}}\n', "toml", "mcp_servers", "a", ENTRY)


def test_a_file_from_windows_keeps_its_mark_and_its_line_ends(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(b'\xef\xbb\xbf{\r\n  "mcpServers": {}\r\n}\r\n')
    done = tidings("install", "web", "--client", "cursor", "--yes", **home)
    assert done.code == 0, done.err
    written = file.read_bytes()
    assert written.startswith(b'\xef\xbb\xbf{\r\n  "mcpServers": {\r\n    "web": {\r\n')
    assert written.count(b"\n") == written.count(b"\r\n")


def test_a_section_of_another_kind_is_refused_and_an_empty_one_filled() -> None:
    with pytest.raises(NotEditable, match="an object in which mcpServers"):
        edited('{"mcpServers": []}', "json", "mcpServers", "web", ENTRY)
    made = edited('{"mcpServers": null, "x": 1}', "json", "mcpServers", "web", ENTRY)
    assert json.loads(made) == {"mcpServers": {"web": ENTRY}, "x": 1}
    with pytest.raises(NotEditable, match=r"tables of their own, such as \[mcp_servers.web\]"):
        edited("mcp_servers = {}", "toml", "mcp_servers", "web", ENTRY)


def test_yaml_keeps_its_indentation() -> None:
    before = "# mine\nextensions:\n    dev: # one\n        enabled: true\n"
    assert edited(before, "yaml", "extensions", "web", ENTRY).startswith(before)

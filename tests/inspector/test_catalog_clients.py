"""The servers that other programs on this machine know."""

import json
from pathlib import Path

import pytest

from tidings.inspector.catalog.catalog import Catalog, FoundClient, find_clients

DESKTOP = {"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"]}}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project" / "src"
    folder.mkdir(parents=True)
    return folder


def put(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def names(found: list[FoundClient]) -> list[tuple[str, list[str]]]:
    return [(each.client, [server.name for server in each.servers]) for each in found]


def test_where_there_is_nothing_nothing_is_found(home: Path, project: Path) -> None:
    assert find_clients(home, project, "linux", {}) == []


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", ".config"), ("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")],
)
def test_each_system_has_its_folder(home: Path, project: Path, platform: str, folder: str) -> None:
    put(home / folder / "Claude" / "claude_desktop_config.json", DESKTOP)
    put(home / folder / "Code" / "User" / "mcp.json", {"servers": {"a": {"type": "http", "url": "http://x/"}}})
    assert names(find_clients(home, project, platform, {})) == [("Claude Desktop", ["files"]), ("VS Code", ["a"])]


def test_stated_folders_go_before(home: Path, project: Path, tmp_path: Path) -> None:
    put(tmp_path / "x" / "Claude" / "claude_desktop_config.json", DESKTOP)
    put(tmp_path / "y" / ".claude.json", {"mcpServers": {"b": {"url": "http://x/"}}})
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "x"), "CLAUDE_CONFIG_DIR": str(tmp_path / "y")}
    assert names(find_clients(home, project, "linux", environ)) == [
        ("Claude Desktop", ["files"]),
        ("Claude Code", ["b"]),
    ]


def test_claude_codes_servers_of_each_project_run_there(home: Path, project: Path) -> None:
    document = {
        "mcpServers": {"all": {"type": "stdio", "command": "a"}},
        "projects": {"/srv/one": {"mcpServers": {"one": {"command": "b"}}}, "/srv/two": {"mcpServers": {}}, "/x": 5},
    }
    put(home / ".claude.json", document)
    every, one = find_clients(home, project, "linux", {})
    assert (every.project, every.servers[0].cwd) == (None, None)
    assert (one.project, one.servers[0].cwd) == (Path("/srv/one"), "/srv/one")


def test_a_projects_files_are_found_from_within_it(home: Path, project: Path) -> None:
    root = project.parent
    put(root / ".mcp.json", {"mcpServers": {"a": {"command": "a", "cwd": "/own"}}})
    put(root / ".vscode" / "mcp.json", {"servers": {"b": {"command": "b"}}})
    put(root / ".cursor" / "mcp.json", {"mcpServers": {"c": {"url": "http://x/"}}})
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"d": {"url": "http://x/"}}})
    found = find_clients(home, project, "linux", {})
    assert names(found) == [("Cursor", ["d"]), ("Claude Code", ["a"]), ("VS Code", ["b"]), ("Cursor", ["c"])]
    assert [each.project for each in found] == [None, root, root, root]
    assert [each.servers[0].cwd for each in found] == [None, "/own", str(root), None]


def test_what_only_vs_code_can_fill_in_is_made_into_what_anybody_can(home: Path, project: Path) -> None:
    text = """{
      // The key is asked for.
      "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
      "servers": {
        "a": {"command": "${workspaceFolder}/run", "args": ["${userHome}", "${env:X}", "//no comment",],
              "env": {"KEY": "${input:api-key}"},},
      },
    }"""
    path = put(project / ".vscode" / "mcp.json", text)
    (found,) = find_clients(home, project, "linux", {})
    (entry,) = found.servers
    assert found.path == path
    assert entry.command == f"{project}/run"
    assert entry.args == (str(home), "${env:X}", "//no comment")
    assert entry.env == {"KEY": "${API_KEY}"}


def test_a_broken_file_is_named_with_its_line_and_hides_no_other(home: Path, project: Path) -> None:
    broken = put(home / ".config" / "Claude" / "claude_desktop_config.json", '{"mcpServers": {\n "a" 5}}')
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"good": {"url": "http://x/"}, "bad": {"url": 5}}})
    (home / ".claude.json").mkdir()
    put(project / ".mcp.json", {"mcpServers": []})
    desktop, code, cursor, local = find_clients(home, project, "linux", {})
    assert desktop.problem == f"{broken} is not JSON: line 2, column 6: Expecting ':' delimiter."
    assert code.problem == f"{home / '.claude.json'} is a folder. Give the path of a JSON file."
    assert [server.name for server in cursor.servers] == ["good"]
    assert cursor.problem is not None
    assert "The server 'bad'" in cursor.problem
    assert local.problem is not None
    assert "must be an object of servers by name" in local.problem


def test_a_link_that_leads_to_itself_is_told(home: Path, project: Path) -> None:
    loop = project / ".mcp.json"
    loop.symlink_to(loop)
    (found,) = find_clients(home, project, "linux", {})
    assert found.problem is not None
    assert "cannot be read" in found.problem


def test_what_was_found_can_be_imported_again_and_again(home: Path, project: Path, tmp_path: Path) -> None:
    put(home / ".config" / "Claude" / "claude_desktop_config.json", DESKTOP)
    put(home / ".cursor" / "mcp.json", {"mcpServers": {"files": {"url": "http://x/"}}})
    catalog = Catalog(tmp_path / "servers.json")
    for _ in range(2):
        for each in find_clients(home, project, "linux", {}):
            catalog.import_entries(each.servers)
        assert [each.name for each in catalog.entries()] == ["files", "files (2)"]

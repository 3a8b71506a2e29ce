"""What a user types to mean a server."""

import json
import sys
from pathlib import Path

import pytest

from tidings.errors import BadTarget
from tidings.inspector.catalog.catalog import Catalog, command_length, resolve
from tidings.inspector.catalog.entry import ServerEntry


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path / "servers.json")
    for name in ("Weather", "my notes", "twin", "TWIN"):
        catalog.add(ServerEntry(name, url=f"https://{name.replace(' ', '-')}.example/mcp"))
    return catalog


@pytest.mark.parametrize(
    ("text", "name"),
    [("Weather", "Weather"), ("weather", "Weather"), (" my notes ", "my notes"), ("twin", "twin"), ("TWIN", "TWIN")],
)
def test_a_name_is_found_exactly_or_but_for_its_case(catalog: Catalog, text: str, name: str) -> None:
    assert resolve(text, catalog).name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("https://api.example.com/mcp?key=1", "api.example.com"),
        ("http://me:secret@127.0.0.1:8000/mcp", "127.0.0.1:8000"),
        (f"{sys.executable} server.py --port 5", "server"),
        (f"{sys.executable} -m weather.server", "weather.server"),
        ("sh run.sh", "sh"),
        ([sys.executable, "a b.py"], "a b"),
        (["npx", "-y", "@scope/server-files", "/tmp"], "server-files"),
    ],
)
def test_urls_and_commands_get_a_name_of_their_own(text: str | list[str], name: str) -> None:
    assert resolve(text).name == name


def test_what_is_typed_is_taken_as_it_is() -> None:
    words = ("sh", "-c", "echo ${1%x} ${UNSET}")
    resolved = resolve(list(words)).resolved({})
    assert (resolved.command, *resolved.args) == words
    assert resolve("http://x/${Y}").resolved({}).url == "http://x/${Y}"


def test_a_server_of_a_file_is_found_though_the_file_has_comments(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"servers": {"a": {"url": "http://a/"}, "b": {"url": "http://b/"},} /* two */}')
    assert resolve(f"{file}#b").url == "http://b/"
    with pytest.raises(BadTarget, match=r"has 2 servers. Name one of them, for example .*#a. Its servers: a, b."):
        resolve(str(file))
    with pytest.raises(BadTarget, match="has no server called 'c'"):
        resolve(f"{file}#c")
    file.write_text(json.dumps({"mcpServers": {"only": {"url": "http://a/"}, "bad": {"url": 5}}}))
    assert resolve(str(file)).name == "only"
    with pytest.raises(BadTarget, match="url must be a string"):
        resolve(f"{file}#bad")
    file.write_text("{")
    with pytest.raises(BadTarget, match="is not JSON: line 1, column 2"):
        resolve(str(file))
    file.write_text("{}")
    with pytest.raises(BadTarget, match="has no server in it"):
        resolve(str(file))
    with pytest.raises(BadTarget, match="There is no file"):
        resolve(str(tmp_path / "none.json"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wether", "Did you mean Weather?"),
        ("zzz", "In your catalog: Weather, my notes, twin, TWIN."),
        ("no-such-program --flag", "Give a name in your catalog, a URL"),
        ("ftp://x", "begins with ftp://"),
        ("localhost:8000/mcp", "Did you mean http://localhost:8000/mcp?"),
        ("", "The target is empty"),
        ("'unclosed", "cannot be split into words"),
        ("''", "The command is empty"),
        ([], "The command is empty"),
    ],
)
def test_what_is_not_understood_is_told_with_what_is(catalog: Catalog, text: str | list[str], words: str) -> None:
    with pytest.raises(BadTarget) as error:
        resolve(text, catalog)
    assert words in str(error.value)


def test_a_catalog_that_cannot_be_read_is_told_only_where_it_was_needed(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text("nonsense")
    assert resolve("http://x/", Catalog(file)).url == "http://x/"
    with pytest.raises(BadTarget, match=r"The catalog cannot be used: .*line 1, column 1"):
        resolve("weather", Catalog(file))


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("python server.py report x=1", 2),
        ("python3.12 -u server.py report", 3),
        ("python -m weather.server report", 3),
        ("npx -y @scope/server report", 3),
        ("uvx --from git+https://x weather report", 4),
        ("uv run --with mcp server.py report", 5),
        ("uv run python -m weather report", 5),
        ("npx -y", 2),
        ("tidings vault Notes search query=x", 3),
        ("uvx tidings vault Notes", 4),
        ("tidings web tools", 2),
    ],
)
def test_the_command_of_a_runner_ends_with_what_it_runs(words: str, length: int) -> None:
    assert command_length(words.split()) == length


def test_a_python_file_runs_in_the_environment_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    file = tmp_path / "sub" / "server.py"
    file.parent.mkdir()
    with pytest.raises(BadTarget, match="There is no file"):
        resolve(str(file))
    file.touch()
    assert (resolve(str(file)).name, resolve(str(file)).command) == ("server", sys.executable)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert resolve(f"{file}:mcp --port 5").command == str(python)
    assert resolve(f"{file}:mcp --port 5").args[1:] == (str(file), "mcp", "--port", "5")

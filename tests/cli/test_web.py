"""`tidings web` as people and clients meet it: what it prints, what it refuses, and that it serves."""

import importlib.util
import ipaddress
import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from packaging.requirements import Requirement

import tidings
from tidings._kit.lazy import install_command
from tidings.cli import client_config, web
from tidings.cli.main import main
from tidings.web import PACKAGES
from tidings.web.settings import SETTINGS, Settings

pytestmark = pytest.mark.anyio


def tidings_web(*args: object, **env: str) -> Result:
    given = {"TIDINGS_TOKEN": None} | {f"TIDINGS_WEB_{name.upper()}": value for name, value in env.items()}
    return CliRunner().invoke(main, ["web", *map(str, args)], prog_name="tidings", env=given)


def refused(*args: object, **env: str) -> str:
    """The one line that it says."""
    result = tidings_web(*args, **env)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[web.WebOptions]:
    """The options of the command, which does not serve."""
    ran: list[web.WebOptions] = []
    monkeypatch.setattr(web, "serve", ran.append)
    return ran


# Settings


def test_every_setting_has_an_option_and_a_variable(asked: list[web.WebOptions]) -> None:
    values: dict[str, tuple[str, Any]] = {
        "size": ("3M", 3 * 1024 * 1024),
        "seconds": ("2m", 120.0),
        "text": ("Probe", "Probe"),
        "choice": ("respect", "respect"),
        "networks": ("10.0.0.0/8", (ipaddress.ip_network("10.0.0.0/8"),)),
        "domains": ("a.b", ("a.b",)),
        "file": ("pages.db", Path("pages.db")),
        "secrets": ("A@a.b", "A@a.b"),
        "proxy": ("http://a.b:1", "http://a.b:1"),
    }
    for setting in SETTINGS:
        if setting.kind == "flag":
            option = setting.option.rpartition("/")[2]
            text, value, words = str(not setting.default).lower(), not setting.default, [option]
        else:
            least = int(setting.least) + 1
            text, value = values.get(setting.kind, (str(least), least))
            if setting.name == "read_memory":
                text, value = "1G", 1024**3
            words = [setting.option, text]
        assert tidings_web(*words).exit_code == 0, setting.name
        assert getattr(asked.pop().settings, setting.name) == value
        assert tidings_web(**{setting.name: text}).exit_code == 0, setting.name
        assert getattr(asked.pop().settings, setting.name) == value


def test_nothing_said_is_as_the_defaults_have_it_and_an_option_goes_before_a_variable(
    asked: list[web.WebOptions],
) -> None:
    assert tidings_web().exit_code == 0
    assert asked.pop() == web.WebOptions(Settings(), None, None, None)
    assert tidings_web("--timeout", "5", timeout="9").exit_code == 0
    assert asked.pop().settings.timeout == 5


def test_several_networks_and_domains_can_be_given(asked: list[web.WebOptions]) -> None:
    tidings_web("--allow-private", "10.0.0.0/8", "--allow-private", "::1", block_domain="a.b, c.d")
    settings = asked.pop().settings
    assert list(map(str, settings.allow_private)) == ["10.0.0.0/8", "::1/128"]
    assert settings.block_domain == ("a.b", "c.d")


def test_a_value_that_is_none_is_refused_by_the_name_it_was_given_under() -> None:
    assert refused("--max-bytes", "many") == "Error: --max-bytes: 'many' is not a size. Give bytes, or 500k, 10M, 1G."
    assert refused(max_bytes="many").startswith("Error: TIDINGS_WEB_MAX_BYTES: 'many' is not a size")
    assert "--allow-private: 'x' is not a network" in refused("--allow-private", "x")
    assert "--watch-min (60 s) is longer than --watch-max (10 s)" in refused("--watch-max", "10")


def test_a_variable_that_is_misspelt_is_told_of(asked: list[web.WebOptions]) -> None:
    result = tidings_web(timeot="5", nonsense="1")
    assert (result.exit_code, asked.pop().settings.timeout) == (0, 30)
    first, second = result.stderr.splitlines()
    assert first.startswith("The variable TIDINGS_WEB_NONSENSE is ignored")
    assert second.endswith("there is no such setting. Did you mean TIDINGS_WEB_TIMEOUT?")


def test_its_help_names_every_option_and_imports_none_of_what_is_slow_to_import() -> None:
    program = (
        "import sys\n"
        "from tidings.cli.main import main\n"
        "main(['web', '--help'], standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert all(setting.option.partition("/")[0] in run.stdout for setting in SETTINGS)
    modules = set(run.stderr.split())
    assert not modules & {"mcp", "pydantic", "starlette", "anyio", "asyncio", "uvicorn", "lxml", "tidings.web.server"}


def test_a_start_imports_nothing_that_only_fetching_or_reading_needs() -> None:
    program = (
        "import sys\n"
        "from tidings.cli import web\n"
        "from tidings.web.settings import Settings\n"
        "web.make_server(web.WebOptions(Settings(), None, None, None))\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"lxml", "lxml.etree", "protego", "h2", "pypdfium2", "playwright"}


# Refusals


def test_what_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    assert "Give --store FILE" in refused("--bus", f"sqlite:///{tmp_path}/bus.db")
    assert "There is no bus" in refused("--bus", "kafka://host", "--store", tmp_path / "pages.db")
    assert "Error: A bus needs a URL" in refused("--bus", "nonsense")
    assert "'foo' is not an address" in refused("--http", "foo")
    assert "TIDINGS_TOKEN" in refused("--http", "0.0.0.0")
    assert "--token needs --http" in refused("--token", "s3cret")
    assert "for example --http 127.0.0.1:9000." in refused("--port", "9000")


def test_a_bus_in_memory_needs_no_store(asked: list[web.WebOptions]) -> None:
    assert tidings_web("--bus", "memory:").exit_code == 0
    assert web.make_server(asked.pop()).web_settings == Settings()


def test_the_packages_that_are_looked_for_are_those_of_the_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(PACKAGES) == {Requirement(text).name for text in project["optional-dependencies"]["web"]}


def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    missing = ["lxml", "playwright"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else find(name))
    how = install_command("web")
    assert refused() == f"Error: The web server needs more packages (lxml): {how}"
    assert refused("watch", "https://a.example") == f"Error: The web server needs more packages (lxml): {how}"
    missing.remove("lxml")
    assert install_command("render") in refused("--render")


def test_a_missing_package_is_named_to_a_program_too() -> None:
    program = "import sys; sys.modules['idna'] = None\nfrom tidings.web import WebServer"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr.endswith(f"ImportError: The web server needs more packages (idna): {install_command('web')}\n")


# Snippets


def test_a_snippet_has_every_option_and_no_path_that_depends_on_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--bus", "memory:", "--allow-private", "10.0.0.0/8", "--keep", "2h", "--no-pdf", "--store", "pages.db"]
    result = tidings_web(*options, "--config", "vscode", retries="1")
    server = json.loads(result.stdout)["servers"]["web"]
    expected = ["--bus", "memory:", "--retries", "1", "--allow-private", "10.0.0.0/8", "--keep", "7200", "--store"]
    assert server["args"] == ["web", *expected, str(tmp_path / "pages.db"), "--no-pdf"]
    waking = tidings_web("--channel", "--hints", "--config", "vscode")
    assert json.loads(waking.stdout)["servers"]["web"]["args"] == ["web", "--hints", "--channel"]


def test_a_channel_over_http_is_refused() -> None:
    said = "Error: --channel needs a client that starts the server itself. Omit --http, or omit --channel."
    assert refused("--http", "--channel") == said


def test_pages_are_kept_for_servers_that_may_fetch_the_same(asked: list[web.WebOptions]) -> None:
    def folder(*words: object) -> Path | None:
        assert tidings_web(*words).exit_code == 0
        return web._folder_of(asked.pop())

    assert folder() == folder("--keep", "2h", "--watch-min", "5s")
    others = [
        folder("--http", "127.0.0.1:8000"),
        folder("--http", "127.0.0.1:8001"),
        folder("--allow-private", "10.0.0.0/8"),
        folder("--allow-domain", "a.b"),
        folder("--block-domain", "a.b"),
        folder(),
    ]
    assert None not in others
    assert len(set(others)) == len(others)
    assert folder("--http", "0") is None


def test_a_snippet_for_claude_code_is_a_command_that_starts_this_one() -> None:
    words = shlex.split(tidings_web("--config", "claude-code").stdout)
    start = words.index("--") + 1
    assert subprocess.run([words[start], "--version"], capture_output=True, check=True).stdout.startswith(b"tidings ")
    assert words[start + 1 :] == ["web"]


def test_a_snippet_for_a_server_that_runs_has_its_address_and_token() -> None:
    result = tidings_web("--http", "9000", "--token", "s3cret", "--config", "cursor")
    assert json.loads(result.stdout)["mcpServers"]["web"] == {
        "url": "http://127.0.0.1:9000/mcp",
        "headers": {"Authorization": "Bearer s3cret"},
    }
    assert "The client does not start the server at http://127.0.0.1:9000/mcp: run it yourself" in result.stderr


# Serving


def test_whoever_starts_it_in_a_terminal_is_told_how_to_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "run", lambda *_, **__: None)
    assert tidings_web().stderr == ""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    said = tidings_web().stderr
    assert said.startswith(
        "Serving the web over stdio (press Ctrl-C to stop).\nIt expects MCP messages on standard input"
    )
    assert max(map(len, said.splitlines())) <= 80


@contextmanager
def started(*args: object) -> Generator[tuple["subprocess.Popen[str]", str]]:
    """The command in a process of its own, and the URL it says."""
    program = [*client_config.program("web"), "web", *map(str, args)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.search(r"at (http://\S+)", first)
            assert found is not None, first
            yield process, found[1]
        finally:
            process.kill()


async def test_it_serves_over_http_says_so_and_ends_when_it_is_asked_to() -> None:
    with started("--http", "0", "--token", "s3cret") as (process, url), anyio.fail_after(40):
        async with tidings.connect(url, token="s3cret") as client:
            called = await client.call_tool("extract", {"text": "<p>Hello there, this is a page of mine.</p>"})
            assert called.result is not None
            assert "this is a page of mine" in called.result.meta["dev.tidings/data"]["pages"][0]["content"]
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stderr is not None
        out = await anyio.to_thread.run_sync(process.stdout.read)
        err = await anyio.to_thread.run_sync(process.stderr.read)
        assert (await anyio.to_thread.run_sync(process.wait), out) == (0, "")
    assert "--config claude-code" in err
    assert "Traceback" not in err


def test_a_store_that_cannot_be_used_is_said_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for http in ([], ["--http", "0"]):
        program = [*client_config.program("web"), "web", "--store", str(tmp_path / "folder"), *http]
        run = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (2, "")
        assert "Traceback" not in run.stderr
        assert "it is a folder. Name a file in it." in run.stderr

"""What catalogs and apps take from `publish/`: each command in it runs, and each version is that of the wheel."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import tidings
from tidings.cli.main import main

ROOT = Path(__file__).parents[1]
# What the registry's schema of 2025-12-11 asks of the keys that the entries use. No other key is permitted here, as the
# registry ignores keys that are misspelled.
ARGUMENT = {
    "properties": {
        "type": {"enum": ["positional", "named"]},
        "name": {"type": "string"},
        "value": {"type": "string"},
        "valueHint": {"type": "string"},
        "description": {"type": "string"},
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "isRequired": {"type": "boolean"},
    },
    "required": ["type"],
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
    "else": {"anyOf": [{"required": ["value"]}, {"required": ["valueHint"]}]},
    "additionalProperties": False,
}
PACKAGE = {
    "properties": {
        "registryType": {"const": "pypi"},
        "identifier": {"type": "string"},
        "version": {"type": "string", "pattern": r"^\d"},
        "runtimeHint": {"type": "string"},
        "runtimeArguments": {"type": "array", "items": ARGUMENT},
        "packageArguments": {"type": "array", "items": ARGUMENT},
        "transport": {"const": {"type": "stdio"}},
    },
    "required": ["registryType", "identifier", "transport", "version"],
    "dependentRequired": {"runtimeArguments": ["runtimeHint"]},
    "additionalProperties": False,
}
ENTRY = {
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "maxLength": 255},
        "repository": {"type": "object", "required": ["url", "source"]},
        "packages": {"type": "array", "items": PACKAGE},
    },
    "required": ["$schema", "name", "title", "description", "version", "repository", "packages"],
    "additionalProperties": False,
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAME = f"tidings-{tidings.__version__}-py3-none-any.whl"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The folder dist/ of a release, whose wheel is only a name."""
    for folder in ("scripts", "dist"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts/catalogs", tmp_path / "scripts")
    shutil.copytree(ROOT / "publish", tmp_path / "publish")
    (tmp_path / "dist" / NAME).write_bytes(b"a wheel")
    subprocess.run([sys.executable, tmp_path / "scripts/catalogs"], check=True)
    return tmp_path / "dist"


def load(text: str | bytes) -> dict[str, Any]:
    """A JSON object without a version that was forgotten."""
    assert "{version}" not in str(text)
    return json.loads(text)


def commands(made: Path) -> Iterator[list[str]]:
    """The arguments with which each file starts `tidings`, without what a user gives."""
    for file in sorted(made.glob("registry/*/server.json")):
        (package,) = load(file.read_text("utf-8"))["packages"]
        yield [each["value"] for each in package["packageArguments"] if "value" in each]
    for file in sorted(made.glob("*.mcpb")):
        with zipfile.ZipFile(file) as bundle:
            config = load(bundle.read("manifest.json"))["server"]["mcp_config"]
        yield config["args"][config["args"].index("tidings") + 1 :]
    for file in sorted((ROOT / "publish/claude-code").glob("*/.mcp.json")):
        for server in load(file.read_text("utf-8"))["mcpServers"].values():
            assert server["command"] == "tidings"
            yield server["args"]


def test_each_command_in_what_is_published_exists(made: Path) -> None:
    found = [[word for word in arguments if "$" not in word] for arguments in commands(made)]
    assert len(found) == 7
    for arguments in found:
        run = CliRunner().invoke(main, [*arguments, "--help"])
        assert run.exit_code == 0, (shlex.join(arguments), run.output)


def test_entries_of_the_registry_name_the_version_an_extra_and_what_readme_claims(made: Path) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    names = {"vault", "web", "bridge"}
    assert {folder.name for folder in (made / "registry").iterdir()} == names
    for name in names:
        entry = load((made / f"registry/{name}/server.json").read_text("utf-8"))
        (package,) = entry["packages"]
        assert entry["name"] in re.findall(r"mcp-name: (\S+)", readme)
        jsonschema.validate(entry, ENTRY, jsonschema.Draft202012Validator)
        assert entry["repository"]["url"] == PROJECT["urls"]["Homepage"]
        assert (entry["version"], package["version"]) == (tidings.__version__, tidings.__version__)
        # Clients run `uvx RUNTIME-ARGUMENTS IDENTIFIER@VERSION`, or IDENTIFIER alone. With `--from`, uvx takes the
        # former for the name of a program, and fails. `--with` adds the extra in both cases.
        (argument,) = package["runtimeArguments"]
        assert (argument["name"], argument["value"]) == ("--with", f"tidings[{name}]=={tidings.__version__}")
        assert name in PROJECT["optional-dependencies"]


def test_a_bundle_brings_the_wheel_that_its_environment_is_made_from(made: Path) -> None:
    for name in ("vault", "web"):
        with zipfile.ZipFile(made / f"tidings-{name}-{tidings.__version__}.mcpb") as bundle:
            manifest, environment = load(bundle.read("manifest.json")), bundle.read("pyproject.toml").decode()
            assert bundle.read(NAME) == b"a wheel"
        assert manifest["version"] == tidings.__version__
        table = tomllib.loads(environment)
        assert table["tool"]["uv"]["sources"] == {"tidings": {"path": NAME}}
        assert table["project"]["dependencies"] == [f"tidings[{name}]"]
        wanted = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"])))
        assert wanted == set(manifest.get("user_config", {}))


def test_each_plugin_of_the_marketplace_is_there_and_asks_for_what_it_uses() -> None:
    market = load((ROOT / ".claude-plugin/marketplace.json").read_text("utf-8"))
    folders = {plugin["name"]: ROOT / plugin["source"] for plugin in market["plugins"]}
    assert {folder.resolve() for folder in folders.values()} == set((ROOT / "publish/claude-code").resolve().iterdir())
    for name, folder in folders.items():
        plugin = load((folder / ".claude-plugin/plugin.json").read_text("utf-8"))
        servers = (folder / ".mcp.json").read_text("utf-8")
        assert plugin["name"] == name
        assert set(re.findall(r"\$\{user_config\.(\w+)\}", servers)) == set(plugin.get("userConfig", {}))


def test_catalogs_say_what_to_do_when_there_is_no_wheel(made: Path) -> None:
    (made / NAME).unlink()
    script = made.parent / "scripts/catalogs"
    run = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True)
    assert (run.returncode, "make dist" in run.stderr) == (1, True)


@pytest.mark.thorough
def test_the_wheel_in_an_environment_of_its_own_shows_the_demo(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    venv.create(tmp_path / "clean")
    (packages,) = (tmp_path / "clean").glob("lib/*/site-packages")
    # Its dependencies are those of this environment; an editable install of this clone comes after the wheel.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "uv", "pip", "install", "--offline", "--no-deps", "--python", tmp_path / "clean"]
    subprocess.run([*install, tmp_path / NAME], check=True, capture_output=True)
    command = tmp_path / "clean/bin/tidings"
    run = subprocess.run([command, "demo"], check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "the agent says:" in run.stdout
    assert "everything is back" in run.stdout
    where = [tmp_path / "clean/bin/python", "-c", "import tidings; print(tidings.__file__)"]
    assert subprocess.check_output(where, text=True, cwd=tmp_path).startswith(str(packages))

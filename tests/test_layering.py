"""Imports point one way; pyproject.toml draws the layers."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lint(config: Path, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache", "--config", config, *options]
    return subprocess.run(program, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_rooms_import_only_what_they_may() -> None:
    result = lint(ROOT / "pyproject.toml", ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_import_against_the_layers_is_found(tmp_path: Path) -> None:
    """The contract bites: two rooms side by side, and one room from below, in a package of the same plan."""
    rooms = ["_kit", "bridge", "cli", "demo", "inspector", "vault", "web", "client", "server", "bus"]
    package = tmp_path / "tidings"
    for room in rooms:
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").touch()
    for file in ("__init__", "__main__", "changes", "errors", "_version"):
        (package / f"{file}.py").touch()
    (package / "client/feed.py").write_text("import tidings.server\n")
    (package / "bus/nats.py").write_text("import tidings.cli\n")

    result = lint(ROOT / "pyproject.toml", tmp_path, "--contract", "layers")

    assert result.returncode != 0
    assert "tidings.client is not allowed to import tidings.server" in result.stdout
    assert "tidings.bus is not allowed to import tidings.cli" in result.stdout

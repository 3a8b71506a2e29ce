"""What a vault's server is called, and those of its answers that are known before it runs.

The answers are in `front.json`, as the server itself gave them: `python -m tests.vault.front_answers --write` asks it
anew. They hold for one version of the SDK, and there is none with another.

May import: `files.paths`. No more: this is asked before the SDK is imported.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tidings._version import __version__
from tidings.vault.files.paths import Vault

ANSWERS: Final = Path(__file__).with_name("front.json")

SERVER_INFO: Final = '"$serverInfo"'
"""Stands in an answer for what the server is called."""


def called(vault: Vault) -> tuple[str, str]:
    """What clients call the server, and what they show."""
    # A name on the disk need not be text.
    folders = [mount.root.name.encode(errors="replace").decode() or "vault" for mount in vault.mounts]
    if len(folders) == 1:
        return folders[0], f"{folders[0]} (Obsidian vault)"
    return "vaults", f"{', '.join(folders)} (Obsidian vaults)"


def known_answers(vault: Vault, *, read_only: bool) -> dict[str, dict[str, str]]:
    """Results in JSON, by the version of the protocol and the method; none if another SDK is installed."""
    try:
        kept: dict[str, Any] = json.loads(ANSWERS.read_bytes())
    except (OSError, ValueError):
        return {}
    if not all(_is_installed(package, version) for package, version in kept["made with"].items()):
        return {}
    name, title = called(vault)
    info = json.dumps({"name": name, "title": title, "version": __version__}, ensure_ascii=False)
    results = [_compact(result).replace(SERVER_INFO, info) for result in kept["results"]]
    table: dict[str, dict[str, int]] = kept["read-only" if read_only else "writing"]
    return {version: {method: results[n] for method, n in methods.items()} for version, methods in table.items()}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_installed(package: str, version: str) -> bool:
    # `importlib.metadata` would tell, and takes longer than all the rest of this.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).parents[1].joinpath(f"{package}-{version}.dist-info").is_dir()

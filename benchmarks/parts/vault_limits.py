"""What cannot be undercut: reading all files and storing them, a bare query, a bare server, and ripgrep."""

import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.parts.vault_notes import COMMON, PHRASE, RARE, Vault
from benchmarks.parts.vault_session import Session

BARE_SERVER = "from mcp.server.mcpserver import MCPServer; MCPServer('bare').run('stdio')"

QUERIES = {"rare": RARE, "common": COMMON, "phrase": f'"{PHRASE}"'}


class Took(NamedTuple):
    """Seconds, by the clock and of CPU."""

    seconds: float
    cpu: float


def took(action: Callable[[], Any]) -> Took:
    start, cpu = time.monotonic(), time.process_time()
    action()
    return Took(time.monotonic() - start, time.process_time() - cpu)


def plain_index(vault: Vault, file: Path) -> Took:
    """Read every note and store its text in FTS5, in one thread; no tags, no links, no properties."""
    return took(lambda: _store(vault, file))


def _store(vault: Vault, file: Path) -> None:
    database = sqlite3.connect(file)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE VIRTUAL TABLE fts USING fts5(path UNINDEXED, body, tokenize = 'unicode61')")
    texts = ((path.relative_to(vault.root).as_posix(), path.read_text()) for path in vault.root.rglob("*.md"))
    with database:
        database.executemany("INSERT INTO fts VALUES (?, ?)", texts)
    database.close()


def plain_query(file: Path, name: str, times: int) -> float:
    """Milliseconds of a bare query for the twenty best, in the median."""
    database = sqlite3.connect(file)
    sql = "SELECT path, snippet(fts, 1, '', '', '…', 20) FROM fts WHERE fts MATCH ? ORDER BY rank LIMIT 20"
    each = [took(lambda: database.execute(sql, (QUERIES[name],)).fetchall()).seconds for _ in range(times)]
    database.close()
    return statistics.median(each) * 1000


def bare_server(log: Path) -> Session:
    """The SDK's own server, with no tools at all."""
    return Session([sys.executable, "-c", BARE_SERVER], log)


RIPGREP = {
    "rare": ("--files-with-matches", "--word-regexp", "--ignore-case", RARE),
    "common": ("--files-with-matches", "--word-regexp", "--ignore-case", COMMON),
    "phrase": ("--files-with-matches", "--ignore-case", PHRASE),
    "tags": ("--only-matching", "--no-filename", "--no-line-number", r"(?:^|\s)#[\p{L}\d_/-]+"),
}


def ripgrep(vault: Vault, name: str, times: int) -> float | None:
    """Milliseconds that ripgrep takes for it, in the median. None if it is not installed."""
    program = shutil.which("rg")
    if program is None:
        return None
    command = [program, "--no-config", "--glob", "*.md", *RIPGREP[name], str(vault.root)]
    runs = [took(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=False)) for _ in range(times)]
    return statistics.median(run.seconds for run in runs) * 1000

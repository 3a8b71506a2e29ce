"""The kit starts quickly: commands and worker processes begin with it."""

import subprocess
import sys
from pathlib import Path

import pytest

import tidings._kit

SLOW = {"mcp", "pydantic", "anyio", "httpx", "httpx2"}
QUICK = {"lazy", "files", "diff", "backoff", "worker", "pool", "sqlite"}
"""These do without asyncio, too: worker processes, or what starts them, import them."""
LATE = {"address_guard"}
"""Imported with the first connection, because they are seams to httpcore."""
FILES = sorted(path.stem for path in Path(tidings._kit.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("name", [name for name in FILES if name not in {"__init__", *LATE}])
def test_no_file_imports_what_takes_long(name: str) -> None:
    slow = SLOW | ({"asyncio"} if name in QUICK else set())
    code = f"import sys, tidings._kit.{name}; print(*sorted(set(sys.modules) & {slow!r}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == []

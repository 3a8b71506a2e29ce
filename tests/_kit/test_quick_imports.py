"""The kit starts quickly: commands and worker processes begin with it."""

import subprocess
import sys
from pathlib import Path

import pytest

import tidings._kit

SLOW = {"mcp", "pydantic", "anyio", "httpx", "httpx2", "asyncio"}
FILES = sorted(path.stem for path in Path(tidings._kit.__file__).parent.glob("*.py"))
ASYNC = {"program", "tasks", "uvicorn_seam"}
"""These may import asyncio."""


@pytest.mark.parametrize("name", [name for name in FILES if name != "__init__"])
def test_no_file_imports_what_takes_long(name: str) -> None:
    code = f"import sys, tidings._kit.{name}; print(*sorted(set(sys.modules) & {SLOW!r}))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(printed) - ({"asyncio"} if name in ASYNC else set()) == set()

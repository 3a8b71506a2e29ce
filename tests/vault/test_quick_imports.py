"""The modules that worker processes and the start of the command import do without the SDK."""

import subprocess
import sys

import pytest

SLOW = ("mcp", "pydantic", "anyio", "httpx", "asyncio")


@pytest.mark.parametrize("module", ["files.paths", "notes.edits", "index.read_file", "index.index"])
def test_a_module_imports_nothing_that_takes_long(module: str) -> None:
    program = f"import sys, tidings.vault.{module}; print([name for name in {SLOW} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"

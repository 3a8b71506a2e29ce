"""Peers that are measured beside Tidings: installed once, at a pinned version, under `.tools/`, where nothing else uses
them. One that cannot be installed is left out.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.process import ROOT
from benchmarks.report import say

TOOLS: Final = ROOT / ".tools"
INSTALL_SECONDS: Final = 240


class NotInstalled(Exception):
    """A peer is not there, and cannot be installed: why."""


def installed(name: str, version: str, command: Callable[[Path], list[str]]) -> Path:
    """Where a peer is, after an installation if it is not there yet."""
    home = TOOLS / name / version
    complete = home / "complete"
    if not complete.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        say(f"installing {name} {version}")
        run(command(home))
        complete.touch()
    return home


def from_pypi(name: str, version: str) -> Path:
    """The Python that has this package, and nothing but what it needs."""
    import uv

    def command(home: Path) -> list[str]:
        run([uv.find_uv_bin(), "venv", "--quiet", str(home / "venv")])
        python = str(home / "venv/bin/python")
        return [uv.find_uv_bin(), "pip", "install", "--quiet", "--python", python, f"{name}=={version}"]

    return installed(name, version, command) / "venv/bin/python"


def run(command: list[str]) -> None:
    """Run an installer.

    Raises:
        NotInstalled: It failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{Path(command[0]).name} could not install it ({type(error).__name__})") from None
    if done.returncode:
        # No more than the kind of failure, as npm names it: the text names registries.
        code = re.search(r"\bE(?!RROR)[A-Z0-9_]{3,}\b", done.stderr)
        raise NotInstalled(f"{Path(command[0]).name} could not install it ({code[0] if code else done.returncode})")

"""Processes in groups of their own: signals to all of a group, and why a program cannot start. Without asyncio."""

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidings._kit.suggest import did_you_mean

GRACE: Final = 1.0  # Seconds for each step on the way to the end, unless the caller says otherwise

POLL: Final = 0.01  # Seconds between two looks at a group that is about to end


def signal_group(pid: int, number: int) -> bool:
    """Sends a signal to the group of a process. False: nothing is left of it, it is not ours, or there are none."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(pid: int, grace: float = GRACE) -> None:
    """Ends what a process left behind in its group: asks, and kills after `grace` seconds. Blocks meanwhile."""
    if not signal_group(pid, signal.SIGTERM):
        return
    until = time.monotonic() + grace
    while signal_group(pid, 0):
        if time.monotonic() > until:
            signal_group(pid, signal.SIGKILL)
            return
        time.sleep(POLL)


def explain_start(  # noqa: PLR0911 - one for each cause
    program: str, cwd: str | None, env: Mapping[str, str], error: Exception
) -> str:
    """Returns why a program (the first word of a command) could not be started in `cwd` with `env`, and what to do."""
    directory = Path(cwd or ".").absolute()
    if not directory.is_dir():
        return f"there is no directory {directory}. Give a cwd= that exists."
    file = directory / program
    match error:
        case FileNotFoundError() if os.sep not in program or "://" in program:
            return f"there is no program {program!r}. {_not_on_path(program, env)}"
        case FileNotFoundError() if file.is_file():
            return f"the first line of {file} names a program that is not there. Correct it, or name the interpreter."
        case FileNotFoundError() if Path(program).is_absolute():
            return f"there is no file {program}. Check the path."
        case FileNotFoundError():
            return f"there is no file {program}. It was looked for in {directory}: use a full path."
        case PermissionError() if file.is_dir():
            return f"{file} is a directory. Name the program in it."
        case PermissionError():
            return f"{file} may not be run. Make it executable (chmod +x), or name its interpreter before it."
        case OSError(errno=errno.ENOEXEC):
            return f"{file} is not a program. Name its interpreter before it, as in python server.py."
        case OSError():
            return f"{error.strerror or type(error).__name__}. Try the same command in a terminal."
        case _:
            return f"{error}. Correct the command, its env= or its cwd=."


def _not_on_path(program: str, env: Mapping[str, str]) -> str:
    if "://" in program:
        return "A URL is given as a string, not as a list."
    if len(words := program.split()) > 1:
        return f"A command is a list with one text for each word: {words}."
    names: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        with contextlib.suppress(OSError):
            names.update(file.name for file in Path(folder or ".").iterdir())
    meant = did_you_mean(program, names, cutoff=0.75, among=100_000, show=str)
    return f"{meant} Is it installed, and on the PATH of this process? A full path finds it in any case.".strip()


def can_open_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Returns whether there is a screen for a browser. One in the terminal would be in the way."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return platform in ("darwin", "win32") or any(environ.get(name) for name in screens)

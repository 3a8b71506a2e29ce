"""Why a command could not be started, and what to do about it."""

import errno
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from tidings.client.targets import CommandTarget
from tidings.errors import CommandFailed


def not_started(target: CommandTarget, error: Exception, env: Mapping[str, str]) -> CommandFailed:
    """The error for a command that the system refused to start in the environment `env`."""
    reason, cure = _explained(target, error, env)
    return CommandFailed(target.clean(f"{target.name} could not be started: {reason}. {cure}"), server=target.name)


def _explained(  # noqa: PLR0911 - one for each cause
    target: CommandTarget, error: Exception, env: Mapping[str, str]
) -> tuple[str, str]:
    program = target.command
    directory = Path(target.cwd or ".").absolute()
    if not directory.is_dir():
        return f"there is no directory {directory}", "Give a cwd= that exists."
    file = directory / program
    match error:
        case FileNotFoundError() if os.sep not in program or "://" in program:
            return f"there is no program {program!r}", _not_on_path(program, env)
        case FileNotFoundError() if file.is_file():
            return f"the first line of {file} names a program that is not there", "Correct it, or name the interpreter."
        case FileNotFoundError():
            cure = (
                "Check the path."
                if Path(program).is_absolute()
                else f"It was looked for in {directory}: use a full path."
            )
            return f"there is no file {program}", cure
        case PermissionError() if file.is_dir():
            return f"{file} is a directory", "Name the program in it."
        case PermissionError():
            return f"{file} may not be run", "Make it executable (chmod +x), or name its interpreter before it."
        case OSError(errno=errno.ENOEXEC):
            return f"{file} is not a program", "Name its interpreter before it, as in python server.py."
        case OSError():
            return error.strerror or type(error).__name__, "Try the same command in a terminal."
        case _:
            return str(error), "Correct the command, its env= or its cwd=."


def _not_on_path(program: str, env: Mapping[str, str]) -> str:
    if "://" in program:
        return "A URL is given as a text, not as a list."
    if len(words := program.split()) > 1:
        return f"A command is a list with one text for each word: {words}."
    close = get_close_matches(program, _programs(env), n=1, cutoff=0.75)
    meant = f"Did you mean {close[0]}? " if close else ""
    return f"{meant}Is it installed, and on the PATH of this process? A full path finds it in any case."


def _programs(env: Mapping[str, str]) -> set[str]:
    """The names of all programs on the PATH."""
    names: set[str] = set()
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        try:
            names.update(file.name for file in Path(folder or ".").iterdir())
        except OSError:
            continue
    return names

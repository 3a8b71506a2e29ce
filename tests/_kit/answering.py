"""Jobs for the child processes of a pool: the name of a function here, and its arguments."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from tidings._kit.worker import LastAnswer

warmed: list[str] = []
held: list[bytearray] = []


def answer(job: tuple[Any, ...]) -> bytes:
    name, *given = job
    return globals()[f"do_{name}"](*given)


def warm_up() -> None:
    warmed.append("warm")


def do_echo(text: str) -> bytes:
    return text.encode()


def do_upper(text: str) -> bytes:
    """Answers while it writes to standard output in two ways."""
    sys.stdout.write("printed ")
    sys.stdout.flush()
    os.write(1, b"written ")
    return text.upper().encode()


def do_pid() -> bytes:
    return str(os.getpid()).encode()


def do_sleep(seconds: float) -> bytes:
    time.sleep(seconds)
    return b"slept"


def do_note(path: str) -> bytes:
    """Writes its process id into a file, and never answers."""
    Path(path).write_text(str(os.getpid()))
    return do_sleep(1_000)


def do_grow(size: int) -> bytes:
    try:
        return str(len(bytearray(size))).encode()
    except MemoryError:
        return LastAnswer(b"too much")


def do_hold(size: int) -> bytes:
    held.append(bytearray(b"x") * size)
    return b"held"


def do_exit(code: int) -> bytes:
    os._exit(code)


def do_abort() -> bytes:
    os.abort()


def do_raise() -> bytes:
    raise RuntimeError("in the child")


def do_write(data: bytes) -> bytes:
    """Writes into the pipe for answers, past the frames, and never answers."""
    files = [Path(f"/proc/self/fd/{number}") for number in range(50)]
    pipes = [int(file.name) for file in files if file.is_symlink() and "pipe:" in str(file.readlink())]
    os.write(max(pipes), data)
    return do_sleep(1_000)


def do_warm() -> bytes:
    return ",".join(warmed).encode()


def do_modules(*names: str) -> bytes:
    return ",".join(sorted(set(names) & set(sys.modules))).encode()


def do_nice() -> bytes:
    return str(os.nice(0)).encode()

"""Another process that keeps a state: `python -m tests.client.keeper WHAT PATH ...`. It tells what it does on stdout.

- `count PATH FIRST` counts from FIRST without end. Each number changes everything in the state. It prints a number once
  that is sure to be in the file.
- `hammer PATH NAME` says `ready`, waits for a line, and saves 300 times under an identity of its own and under one that
  it shares with others, then says `done`.
- `load PATH` tries to load a state, and prints what came of it.
- `fill PATH` fills its disk, makes room again, and prints what came of each.
"""

import asyncio
import itertools
import logging
import resource as limits
import sys

from tests.client.invoked import prompt, resource, tool
from tidings.client.cache import ContentKind
from tidings.client.state_file import Saved, StateFile

A = "note://a"


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - to the parent


def note_number(state: StateFile, n: int) -> None:
    """Make the state that of number `n`, coming from the one before."""
    state.note_removed(ContentKind.PROMPT, f"prompt {n - 1}")
    state.note_put(prompt(f"prompt {n}", "x" * (n * 997 % 20_000)), covered=False)
    state.note_put(resource(A, str(n)), covered=n % 2 == 0)
    state.note_subscriptions({A, f"note://{n}"})
    state.note_cursor(f"epoch:{n}")


def number(saved: Saved) -> int | None:
    """The number of which `saved` is the state; None if it is of none."""
    n = int((saved.cursor or "epoch:-1").removeprefix("epoch:"))
    if n == -1:
        return -1 if saved == Saved() else None
    whole = Saved(
        (prompt(f"prompt {n}", "x" * (n * 997 % 20_000)), resource(A, str(n))),
        frozenset({A} if n % 2 == 0 else ()),
        frozenset({A, f"note://{n}"}),
        f"epoch:{n}",
    )
    return n if saved == whole else None


async def count(path: str, first: str) -> None:
    state = StateFile(path, "me", delay=0)
    await state.load()
    for n in itertools.count(int(first)):
        note_number(state, n)
        # Some are written by themselves, and several at once.
        if n % 3 == 0:
            await state.flush()
            say(n)
        else:
            await asyncio.sleep(0)


async def hammer(path: str, name: str) -> None:
    own, shared = StateFile(path, name, delay=0), StateFile(path, "all", delay=0)
    await own.load()
    await shared.load()
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    for n in range(300):
        own.note_put(tool(f"{n % 40}", f"{name} {n}"), covered=False)
        shared.note_put(tool(f"{n % 40}", f"{name} {n}"), covered=False)
        own.note_cursor(f"{name}:{n}")
        shared.note_cursor(f"{name}:{n}")
        shared.note_subscriptions({f"{name}://{n}"})
        await own.flush()
    await own.aclose()
    await shared.aclose()
    say("done")


async def load(path: str) -> None:
    state = StateFile(path, "me")
    try:
        say("loaded", await state.load())
    except Exception as error:  # noqa: BLE001 - to the parent
        say(type(error).__name__, error)
    await state.aclose()


async def fill(path: str) -> None:
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.WARNING)
    state = StateFile(path, "me", delay=3600, retry=3600)
    await state.load()
    state.note_put(resource(A, "before"), covered=True)
    state.note_cursor("epoch:1")
    await state.flush()
    hard = limits.getrlimit(limits.RLIMIT_FSIZE)[1]
    limits.setrlimit(limits.RLIMIT_FSIZE, (400_000, hard))
    for n in range(3):
        state.note_put(tool(f"large {n}", "x" * 1_000_000), covered=False)
        state.note_removed(ContentKind.RESOURCE, A)
        state.note_cursor(f"epoch:{n + 2}")
        await state.flush()
    other = StateFile(path, "me")
    say("meanwhile", (await other.load()).cursor)
    await other.aclose()
    limits.setrlimit(limits.RLIMIT_FSIZE, (hard, hard))
    await state.flush()
    await state.aclose()


if __name__ == "__main__":
    asyncio.run({"count": count, "hammer": hammer, "load": load, "fill": fill}[sys.argv[1]](*sys.argv[2:]))

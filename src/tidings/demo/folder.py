"""The temporary folder of a demo, which is removed at its end, however that comes.

This file is also a program: `python folder.py FOLDER` removes the folder once its standard input has ended. The demo
holds the other end and lets go of it when it ends, even by `kill -9`. It imports the standard library alone, to be
there at once.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SERVERS_SECONDS: Final = 2.0
"""For the servers of a demo that was killed to end: until then they may write there."""


class CannotWrite(Exception):
    """There is no folder, or no room in it. Says why, and what to do."""


@contextmanager
def writing() -> Generator[None]:
    """Around what writes there.

    Raises:
        CannotWrite: It failed.
    """
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"The demo cannot write to a temporary folder: {error.strerror or error}. "
            "Set TMPDIR to a folder that you may write to, on a disk with room."
        ) from None


@contextmanager
def temporary_folder() -> Generator[Path]:
    """A folder that exists only as long as it is needed.

    Raises:
        CannotWrite: It cannot be made.
    """
    with writing():
        folder = Path(tempfile.mkdtemp(prefix="tidings-demo-")).resolve()
    with subprocess.Popen(  # noqa: S603 - this file, with a folder that was made here
        [sys.executable, "-I", "-S", __file__, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in the terminal is for the demo.
    ):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_when_let_go(folder: Path) -> None:
    sys.stdin.read()
    if folder.exists():
        time.sleep(_SERVERS_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _remove_when_let_go(Path(sys.argv[1]))

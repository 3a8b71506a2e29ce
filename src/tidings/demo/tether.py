"""Runs a module as long as whoever started it lives: `python -m tidings.demo.tether MODULE ARGUMENT…`.

Standard input is the tether. Its other end is held by the process that started this one, and is let go when that
process ends, even by `kill -9`: so nothing of a demo outlives it.
"""

import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

_GRACE: Final = 1.0


def main() -> None:
    """Run what the arguments name."""
    threading.Thread(target=_hold, name="tether", daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _hold() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()

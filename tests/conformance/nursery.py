"""Clients that start at once: a process that has imported everything forks one for each that the suite asks for.

The suite starts a client for each of its hundred scenarios, and each would spend a second on its imports. What it
starts instead is `relay.py`, which passes on what the client is told and where it is to print.
"""

import json
import os
import signal
import socket
import sys
import traceback
from typing import NoReturn

from tests.conformance.client import main as be_client

AT_ONCE = 4
"""Clients that run at the same time. The suite asks for dozens at once, which only makes each of them slow."""

CLIENT_SECONDS = 60


def main(listening: socket.socket) -> NoReturn:
    running = 0
    while True:
        relay, _ = listening.accept()
        if running == AT_ONCE:
            os.wait()
            running -= 1
        if os.fork() == 0:
            listening.close()
            _client(relay)
        relay.close()
        running += 1


def _client(relay: socket.socket) -> NoReturn:
    signal.alarm(CLIENT_SECONDS)
    code = 1
    try:
        _, output, _, _ = socket.recv_fds(relay, 1, 2)
        for number, descriptor in enumerate(output, start=1):
            os.dup2(descriptor, number)
        with relay.makefile() as task:
            url, told = json.load(task)
        os.environ.update(told)
        be_client(url)
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must not go on with its parent's work
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        relay.send(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))

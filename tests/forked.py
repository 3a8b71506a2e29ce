"""Stands for a Python program that the process of `forking.py` runs: `python -IS forked.py ADDRESS WORDS…`.

The program gets the standard streams, variables and folder of this process, and its signals; this process ends as the
program ends. When this process is killed, so is the program.
"""

import json
import os
import signal
import socket
import struct
import sys


def main() -> int:
    ours, theirs = socket.socketpair()
    cwd = os.getcwd()  # noqa: PTH109 - pathlib takes longer to import than all the rest
    order = {"words": sys.argv[2:], "cwd": cwd, "env": dict(os.environ), "session": True, "tied": True}
    with socket.socket(socket.AF_UNIX) as orders:
        orders.connect(sys.argv[1])
        socket.send_fds(orders, [b"\n"], [theirs.fileno(), 0, 1, 2])
        orders.sendall(json.dumps(order).encode() + b"\n")
        theirs.close()
        (pid,) = struct.unpack("i", ours.recv(4))
    for number in (0, 1, 2):
        os.close(number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda each, _: os.kill(pid, each))
    (code,) = struct.unpack("i", ours.recv(4))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    os._exit(main())

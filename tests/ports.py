"""Ports for servers that tests start."""

import random
import socket
from contextlib import suppress

_PORTS = range(10_000, 22_768)
"""Below those that systems hand out by themselves, where whoever connects meanwhile could take it; and so that there is
room above each, where a Redis cluster adds 10,000.
"""


def free_port() -> int:
    """A port of this machine that nobody has."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port

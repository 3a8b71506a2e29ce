"""What the suite runs as its client: passes its task on to the nursery, and ends as the client there ends.

It imports next to nothing, so that it starts at once: run it with `python -IS`.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as nursery:
    nursery.connect(sys.argv[1])
    told = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    socket.send_fds(nursery, [b"\n"], [sys.stdout.fileno(), sys.stderr.fileno()])
    nursery.sendall(json.dumps([sys.argv[2], told]).encode())
    nursery.shutdown(socket.SHUT_WR)
    ended = nursery.recv(1)
sys.exit(ended[0] if ended else 1)

"""A client whose copy stays fresh although its server is killed: one machine, no broker, only default settings.

    python examples/surviving.py [number of changes]     (Ctrl-C stops it)

At every third change, the server is killed (`kill -9`), and the note changes while no server runs. The client
reconnects, learns that the new server cannot know what it missed, and reads again. In
`replicas/killing.py`, the server knows.
"""

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidings
from tidings.client import Backoff, ClientConfig
from tidings.client.events import StateChanged

URI = "note://today"
PATIENT = ClientConfig(backoff=Backoff(delays=(0.1, 0.2, 0.4), tries=None))


def serve(port: int, note: Path) -> None:
    """Runs the server. Its note is in a file, so it outlives the process."""
    mcp = tidings.LiveServer("notes", log_level="CRITICAL")

    @mcp.resource(URI)
    def today() -> str:
        return note.read_text()

    @mcp.tool()
    async def write(text: str) -> None:
        note.write_text(text)
        await mcp.notify.resource_updated(URI)

    mcp.run("streamable-http", port=port)


def start(port: int, note: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--serve", str(port), str(note)], stderr=subprocess.DEVNULL)


def kill(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()


def show(event: StateChanged) -> None:
    if event.signal in ("connection_lost", "handshake_complete"):
        print(f"  the client: {event.new.value}", flush=True)


async def main(changes: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder, "today")
        note.write_text("nothing yet")
        server = start(port, note)
        try:
            async with tidings.connect(f"http://127.0.0.1:{port}/mcp", config=PATIENT) as client:
                copies = client.watch(URI)
                print(f"The client has {(await anext(copies)).text!r}.\n", flush=True)
                client.on(StateChanged, show)
                for count in range(1, changes + 1):
                    text, began = f"note {count}", time.perf_counter()
                    if count % 3:
                        await client.call_tool("write", {"text": text})
                    else:
                        print("\n  kill -9: the server is down, and the note changes.", flush=True)
                        kill(server)
                        note.write_text(text)
                        server = start(port, note)
                    while (await anext(copies)).text != text:
                        pass
                    print(f"  {text!r} received after {time.perf_counter() - began:.2f} s", flush=True)
        finally:
            kill(server)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        try:
            asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
        except KeyboardInterrupt:
            print()

"""An agent whose context stays fresh: the model sees the server's current content, and only changes are read again.

    python examples/fresh_agent.py                             # starts live_server.py and makes a change itself
    python examples/fresh_agent.py http://127.0.0.1:8000/mcp   # uses your live_server.py; you make the change

The agent subscribes to the resources it needs. Before each turn, `client.wait_fresh()` waits until no change is in
flight. Content that did not change since the last turn is in `client.cache`, and costs nothing. (`client.watch` is for
programs that act on each change as it arrives.) `model` stands for a real model and receives the prompt for it.
"""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import tidings
from tidings.client import Backoff, ClientConfig

BOARDS = ["board://kitchen", "board://office"]
PATIENT = ClientConfig(backoff=Backoff(delays=(0.1, 0.2, 0.4, 0.8), tries=None))  # Never gives up.


def model(prompt: str) -> str:
    """Call your model here. This one only repeats the context."""
    return "\n".join(f"  {line}" for line in prompt.splitlines() if line.startswith("board://"))


class Agent:
    def __init__(self, client: tidings.LiveClient) -> None:
        self.client = client
        self.reads = 0

    async def turn(self, question: str) -> str:
        await self.client.wait_fresh()
        context = "\n".join([f"{uri} says: {await self.text(uri)}" for uri in BOARDS])
        return model(f"The current notices:\n{context}\n\nThe user asks: {question}")

    async def text(self, uri: str) -> str:
        if kept := self.client.cache.get_resource(uri):
            return kept.text
        self.reads += 1
        return (await self.client.read_resource(uri)).text


async def converse(url: str, *, alone: bool) -> None:
    async with tidings.connect(url, config=PATIENT) as client:
        await client.subscribe(BOARDS)
        agent = Agent(client)
        await ask(agent, "What is new?")
        await ask(agent, "And now?")
        if alone:
            await another_client(url)
        else:
            await asyncio.to_thread(input, f"Run elsewhere: tidings call {url} post room=kitchen text=… [Enter] ")
        await ask(agent, "And now?")


async def ask(agent: Agent, question: str) -> None:
    before = agent.reads
    answer = await agent.turn(question)
    print(f"> {question}\n{answer}\n  ({agent.reads - before} read for it)\n", flush=True)


async def another_client(url: str) -> None:
    print("Another client posts a notice in the kitchen.\n")
    async with tidings.connect(url) as client:
        await client.call_tool("post", {"room": "kitchen", "text": "There is cake."})


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(converse(sys.argv[1], alone=False))
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("live_server.py")), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(converse(f"http://127.0.0.1:{port}/mcp", alone=True))
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()

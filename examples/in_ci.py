"""A scripted client in CI: tries a server that asks people things, with nobody there; the exit code says how it went.

    python examples/in_ci.py                                      # tries asking_server.py
    python examples/in_ci.py 'python my_server.py' answers.json   # another one, with another script

Exit code 0: every check passed. 1: one did not. 2: the server could not be tried at all. What was checked is on
standard output, a line each; what the server wrote to its standard error follows a failure. `tidings call TARGET TOOL
--answers FILE` is the same for one call, from a shell. `tidings.client.responders` describes what a script of answers
can say, in JSON or YAML.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import tidings
from tidings.client.events import StderrReceived

HERE = Path(__file__).parent
SECONDS = 60


async def checks(client: tidings.LiveClient) -> AsyncIterator[tuple[str, bool]]:
    """What is expected of the server. Put your own here: a sentence, and whether it is so."""
    yield "it has the tools that are promised", {tool.name for tool in client.tools} >= {"book", "cancel_all"}
    await client.subscribe("theatre://bookings")
    yield "nothing is booked at first", await text(client) == "No bookings."
    yield "whoever agrees has seats", await call(client, "book", seats=2) == "2 seats at the aisle for Ada"
    await client.wait_fresh()
    yield "the change was told", client.cache.get_resource("theatre://bookings") is None
    yield "the booking is listed", await text(client) == "Ada: 2 at the aisle"
    yield "whoever declines has none", await call(client, "book", seats=13) == "nothing booked"
    yield "nothing is cancelled by mistake", await call(client, "cancel_all") == "nothing cancelled"


async def call(client: tidings.LiveClient, tool: str, **arguments: object) -> str:
    return (await client.call_tool(tool, arguments)).result.content[0].text


async def text(client: tidings.LiveClient) -> str:
    return (await client.read_resource("theatre://bookings")).text


async def main(target: str | list[str], answers: Path) -> int:
    said: list[str] = []
    failed = 0
    try:
        # The SDK's servers ask with `ctx.elicit` in the old era only.
        async with asyncio.timeout(SECONDS), tidings.connect(target, era="legacy", answer=answers) as client:
            client.on(StderrReceived, lambda event: said.append(event.line))
            async for sentence, is_so in checks(client):
                print(f"{'ok    ' if is_so else 'FAILED'} {sentence}", flush=True)
                failed += not is_so
    except (tidings.TidingsError, ValueError) as error:  # ValueError: the script of answers is none.
        print(f"not tried: {error}", file=sys.stderr)
        return 2
    except TimeoutError:
        print(f"not tried to the end: it took more than {SECONDS} s", file=sys.stderr)
        return 2
    if failed:
        print("The server wrote:", *said, sep="\n  ", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    default = [sys.executable, str(HERE / "asking_server.py")]
    target = sys.argv[1] if len(sys.argv) > 1 else default
    answers = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "in_ci_answers.json"
    sys.exit(asyncio.run(main(target, answers)))

"""A scripted client for CI: tests a server that asks the user questions, without a user.

    python examples/in_ci.py                                      # tests asking_server.py
    python examples/in_ci.py 'python my_server.py' answers.json   # tests another server with another script

Exit code 0: every check passed. 1: a check failed. 2: the server could not be tested. Standard output has one line for
each check. After a failure, the server's standard error follows. `tidings call TARGET TOOL --answers FILE` does the
same for one call, from a shell. `tidings.client.responders` describes the format of the script, in JSON or YAML.
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
    """Yields each check of the server: a sentence, and whether it is true. Put your own here."""
    yield "the server has the expected tools", {tool.name for tool in client.tools} >= {"book", "cancel_all"}
    await client.subscribe("theatre://bookings")
    yield "nothing is booked at first", await text(client) == "No bookings."
    yield "accepting the question books seats", await call(client, "book", seats=2) == "2 seats at the aisle for Ada"
    await client.wait_fresh()
    yield "the change was notified", client.cache.get_resource("theatre://bookings") is None
    yield "the booking is listed", await text(client) == "Ada: 2 at the aisle"
    yield "declining the question books nothing", await call(client, "book", seats=13) == "nothing booked"
    yield "bookings are not cancelled by mistake", await call(client, "cancel_all") == "nothing cancelled"


async def call(client: tidings.LiveClient, tool: str, **arguments: object) -> str:
    return (await client.call_tool(tool, arguments)).result.content[0].text


async def text(client: tidings.LiveClient) -> str:
    return (await client.read_resource("theatre://bookings")).text


async def main(target: str | list[str], answers: Path) -> int:
    said: list[str] = []
    failed = 0
    try:
        # The SDK's servers support `ctx.elicit` only in the legacy era.
        async with asyncio.timeout(SECONDS), tidings.connect(target, era="legacy", answer=answers) as client:
            client.on(StderrReceived, lambda event: said.append(event.line))
            async for sentence, is_so in checks(client):
                print(f"{'ok    ' if is_so else 'FAILED'} {sentence}", flush=True)
                failed += not is_so
    except (tidings.TidingsError, ValueError) as error:  # ValueError: the script of answers is invalid.
        print(f"not tested: {error}", file=sys.stderr)
        return 2
    except TimeoutError:
        print(f"not completed: the test took more than {SECONDS} s", file=sys.stderr)
        return 2
    if failed:
        print("The server wrote:", *said, sep="\n  ", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    default = [sys.executable, str(HERE / "asking_server.py")]
    target = sys.argv[1] if len(sys.argv) > 1 else default
    answers = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "in_ci_answers.json"
    sys.exit(asyncio.run(main(target, answers)))

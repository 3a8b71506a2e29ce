"""Another process on the same bus: `python -m tests.bus.peer ADDRESS WHAT NAME`. It tells what it does on stdout.

- `stream` publishes without end, and prints `version uri` as soon as each publish has returned.
- `exchange` says `ready`, waits for a line, publishes 100 changes from four tasks at once, waits until it has heard
  200 distinct ones, and prints the versions and URIs it heard, in order, as JSON.
- `count` adds 1 to the number in a record without end, by compare-and-set, and prints each number that it has stored.
"""

import asyncio
import itertools
import json
import sys

from tests.bus.buses import Ear, open_bus, records_of
from tidings.bus import Bus
from tidings.changes import ResourceUpdated


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def stream(bus: Bus, name: str) -> None:
    async def publisher(task: int) -> None:
        for n in itertools.count():
            # Some come again and again, others only once.
            uri = f"{name}://{task}/{n % 50 if n % 2 else n}"
            cursor = await bus.publish(ResourceUpdated(uri))
            say(f"{cursor.version} {uri}")

    async with asyncio.TaskGroup() as tasks:
        for task in range(3):
            tasks.create_task(publisher(task))


async def exchange(bus: Bus, name: str) -> None:
    ear = Ear()
    bus.subscribe(ear)
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)

    async def publisher(task: int) -> None:
        for n in range(25):
            await bus.publish(ResourceUpdated(f"{name}://{task}/{n}"))

    async with asyncio.TaskGroup() as tasks:
        for task in range(4):
            tasks.create_task(publisher(task))
    await ear.until(lambda ear: len(set(ear.changes)) >= 200)
    say(
        json.dumps(
            [[cursor.version, change.uri] for cursor, change in ear.heard if isinstance(change, ResourceUpdated)]
        )
    )


async def count(bus: Bus, name: str) -> None:
    records = records_of(bus)
    while True:
        found = await records.get(name)
        number = int(found.value) + 1 if found else 1
        if await records.put(name, b"%d" % number, seconds=60, revision=found.revision if found else 0):
            say(str(number))


async def main(address: str, what: str, name: str) -> None:
    async with open_bus(address) as bus:
        await {"stream": stream, "exchange": exchange, "count": count}[what](bus, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

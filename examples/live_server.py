"""A live server in 20 lines: a thermometer that is read only while somebody listens."""

import asyncio
import random

from tidings import LiveServer

mcp = LiveServer("thermometer")
readings: dict[str, float] = {}
watchers: dict[str, asyncio.Task[None]] = {}


@mcp.resource("temperature://{room}")
def temperature(room: str) -> str:
    return f"{readings.get(room, 20.0):.1f} °C"


@mcp.on_first_subscriber("temperature://{room}")
def start(room: str) -> None:
    watchers[room] = asyncio.create_task(measure(room))


@mcp.on_last_subscriber("temperature://{room}")
def stop(room: str) -> None:
    watchers.pop(room).cancel()


async def measure(room: str) -> None:
    while True:
        readings[room] = readings.get(room, 20.0) + random.uniform(-0.5, 0.5)
        await mcp.notify.resource_updated(f"temperature://{room}")
        await asyncio.sleep(1)


if __name__ == "__main__":
    mcp.run("streamable-http")

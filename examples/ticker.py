"""Stock prices that change 100 times per second, sent at most twice per second, and only while someone subscribes.

    python examples/ticker.py                                 # serves until Ctrl-C; takes a port as argument
    tidings watch http://127.0.0.1:8000/mcp stock://ACME      # in a second terminal: a new price every half second
    tidings read http://127.0.0.1:8000/mcp exchange://lines   # in a third: the stocks with subscribers

`on_first_subscriber` opens a line to the exchange, and `on_last_subscriber` closes it, so stocks without subscribers
cost nothing. `Coalesce` merges changes that come too quickly. The last price always arrives.
"""

import asyncio
import random
import sys

from tidings import LiveServer
from tidings.server import Coalesce

mcp = LiveServer("ticker", coalesce={"stock://{symbol}": Coalesce(window=0.5, max_wait=0.5)})
prices: dict[str, float] = {}
lines: dict[str, asyncio.Task[None]] = {}


@mcp.resource("stock://{symbol}")
def price(symbol: str) -> str:
    return f"{symbol} {prices.get(symbol, 100.0):.2f}"


@mcp.resource("exchange://lines")
def open_lines() -> str:
    return ", ".join(sorted(lines)) or "none"


@mcp.on_first_subscriber("stock://{symbol}")
def open_line(symbol: str) -> None:
    lines[symbol] = asyncio.create_task(follow(symbol))


@mcp.on_last_subscriber("stock://{symbol}")
def close_line(symbol: str) -> None:
    lines.pop(symbol).cancel()


async def follow(symbol: str) -> None:
    """Simulates the feed of the exchange: each trade sets a new price."""
    while True:
        prices[symbol] = prices.get(symbol, 100.0) * random.uniform(0.999, 1.001)
        await mcp.notify.resource_updated(f"stock://{symbol}")
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    mcp.run("streamable-http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)

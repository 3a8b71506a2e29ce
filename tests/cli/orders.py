"""A server with an event `order.created` over HTTP, for `python orders.py PORT BUS`; its tool `order` publishes one."""

import sys

from pydantic import BaseModel

from tidings import LiveServer
from tidings.server import Events, Webhooks

mcp = LiveServer("orders", bus=sys.argv[2], events=Events(webhooks=Webhooks(local=True, retries=(0.1,), lease=1.0)))


class Orders(BaseModel):
    shop: str | None = None


@mcp.event("order.created", arguments=Orders)
class OrderCreated(BaseModel):
    """An order came in."""

    order: str
    shop: str = "oslo"


@mcp.tool()
async def order(name: str, shop: str = "oslo") -> None:
    await mcp.notify.event("order.created", OrderCreated(order=name, shop=shop))


if __name__ == "__main__":
    mcp.run("streamable-http", port=int(sys.argv[1]))

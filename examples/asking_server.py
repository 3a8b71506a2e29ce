"""A server that asks the user before it acts; `in_ci.py` tests it.

    tidings call --era legacy 'python examples/asking_server.py' book seats=3     # asks you in the terminal

Without a user, a script answers: `--answers examples/in_ci_answers.json`. The SDK's servers support `ctx.elicit` only
in the legacy era (protocol versions up to 2025-11-25), hence `--era`.
"""

from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field

from tidings import LiveServer

mcp = LiveServer("theatre")
booked: list[str] = []


class Booking(BaseModel):
    name: str = Field(description="For whom?")
    aisle: bool = Field(default=False, description="At the aisle?")


class Sure(BaseModel):
    really: bool = Field(description="Really?")


@mcp.resource("theatre://bookings")
def bookings() -> str:
    return "\n".join(booked) or "No bookings."


@mcp.tool()
async def book(seats: int, ctx: Context) -> str:
    answer = await ctx.elicit(f"Book {seats} seats?", Booking)
    if answer.action != "accept":
        return "nothing booked"
    where = " at the aisle" if answer.data.aisle else ""
    booked.append(f"{answer.data.name}: {seats}{where}")
    await mcp.notify.resource_updated("theatre://bookings")
    return f"{seats} seats{where} for {answer.data.name}"


@mcp.tool()
async def cancel_all(ctx: Context) -> str:
    answer = await ctx.elicit("Cancel all bookings?", Sure)
    if answer.action != "accept" or not answer.data.really:
        return "nothing cancelled"
    booked.clear()
    await mcp.notify.resource_updated("theatre://bookings")
    return "all cancelled"


if __name__ == "__main__":
    mcp.run("stdio")

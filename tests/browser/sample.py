"""A server with something of everything, to be looked at: `python sample.py [http PORT | sse PORT]`."""

import asyncio
import base64
import itertools
import logging
import sys
from typing import Annotated, Any

from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import Completion, CreateMessageResult, ListRootsResult, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from tidings import LiveServer

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PLAN = (
    "# Plan\n\n- [ ] Freeze the API by Friday\n- [x] Write the **guide**\n\n| who | what |\n|---|---|\n| Ada | docs |\n"
)

server: LiveServer[Any] = LiveServer(
    "sample", version="1.2.3", instructions="Read `note://plan` first. **Never** delete it."
)
plan = {"text": PLAN}


class Sum(BaseModel):
    total: int


class Person(BaseModel):
    name: str = Field(min_length=2)
    age: int = 30


def ask_person() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def ask_model() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text="The capital of France?"))], max_tokens=100)


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 2) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
async def greet(answer: Annotated[ElicitationResult[Person], Resolve(ask_person)]) -> str:
    """Ask who is there."""
    return f"Hello {answer.data.name}, {answer.data.age}" if answer.action == "accept" else f"{answer.action}!"


@server.tool()
async def capital(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask a model."""
    assert isinstance(answer.content, TextContent)
    return f"{answer.model} says {answer.content.text}"


@server.tool()
async def where(answer: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask which folders there are."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def slow(ctx: Context, steps: int = 1000) -> str:
    """Take steps of a tenth of a second, and say how far it is."""
    for step in range(steps):
        await ctx.report_progress(step, steps, f"step {step}")
        await asyncio.sleep(0.1)
    return "done"


@server.tool()
async def speak(ctx: Context, text: str, level: str = "info") -> str:
    """Log something, and write to standard error."""
    await ctx.log(level, text, logger_name="voice")  # pyright: ignore[reportArgumentType, reportDeprecated]
    sys.stderr.write(f"stderr: {text}\n")
    sys.stderr.flush()
    return "said"


@server.tool()
async def write(text: str) -> str:
    """Write the plan."""
    plan["text"] = text
    await server.notify.resource_updated("note://plan")
    return "written"


@server.tool()
async def beat() -> str:
    """Change the plan, and the tool `pulse`, each 50 ms until it is cancelled."""

    def pulse() -> str:
        return "felt"

    try:
        for number in itertools.count():
            plan["text"] = f"# Plan\n\nbeat {number}\n"
            await server.notify.resource_updated("note://plan")
            server.add_tool(pulse, description=f"beat {number}")
            await asyncio.sleep(0.05)
            server.remove_tool("pulse")
    finally:
        plan["text"] = PLAN
    return "never"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("It did not work out.")


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def grow(name: str) -> str:
    """Add a tool with this name."""

    def grown() -> str:
        return name

    server.add_tool(grown, name=name, description="It grew.")
    return "grown"


@server.resource("note://plan", mime_type="text/markdown", title="The plan")
def read_plan() -> str:
    return plan["text"]


@server.resource("data://facts", mime_type="application/json")
def facts() -> str:
    return '{"planets": [{"name": "Mars", "moons": 2}, {"name": "Venus", "moons": 0}], "known": true}'


@server.resource("picture://dot", mime_type="image/png")
def dot() -> bytes:
    return PICTURE


@server.resource("bytes://some", mime_type="application/octet-stream")
def some() -> bytes:
    return bytes(range(256)) * 8


@server.resource("item://{shelf}/{name}")
def item(shelf: str, name: str) -> str:
    return f"{name} on {shelf}"


@server.prompt()
def review(language: str, tone: str = "kind") -> str:
    """Review some code."""
    return f"Review this {language} code, be {tone}."


@server.completion()
async def complete(_ref: Any, argument: Any, _context: Any) -> Completion | None:
    known = {"language": ["python", "pascal", "rust"], "shelf": ["upper", "under", "lower"], "name": ["box", "book"]}
    return Completion(values=[each for each in known.get(argument.name, []) if each.startswith(argument.value)])


def main() -> None:
    logging.getLogger().setLevel(logging.ERROR)
    match sys.argv[1:]:
        case ["http", port]:
            server.run("streamable-http", port=int(port))
        case ["sse", port]:
            server.run("sse", port=int(port))
        case _:
            server.run("stdio")


if __name__ == "__main__":
    main()

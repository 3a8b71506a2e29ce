"""The tools and the prompt that need an answer from the client before they can finish (modern era).

Each call gets either a question (`InputRequiredResult`) or, on the retry, the answers. What must survive between the
rounds rides in the request state, which the SDK seals: a state that was tampered with never gets here.
"""

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

NAME = {"name": "string"}


def form(message: str, fields: dict[str, str]) -> ElicitRequest:
    """A question to the user whose every field must be filled in."""
    properties = {field: {"type": kind} for field, kind in fields.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": list(fields)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str, max_tokens: int) -> CreateMessageRequest:
    """A question to the client's model."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def ask(questions: dict[str, InputRequest], state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=questions, request_state=state)


def filled_in(ctx: Context, key: str, field: str) -> Any:
    """What the user put into `field` of the form `key`; None when that was not answered."""
    answer = (ctx.input_responses or {}).get(key)
    if not isinstance(answer, ElicitResult) or answer.action != "accept" or answer.content is None:
        return None
    return answer.content.get(field)


def sampled(ctx: Context, key: str) -> str | None:
    answer = (ctx.input_responses or {}).get(key)
    if isinstance(answer, CreateMessageResult) and isinstance(answer.content, TextContent):
        return answer.content.text
    return None


def rooted(ctx: Context, key: str) -> list[str] | None:
    answer = (ctx.input_responses or {}).get(key)
    return [str(root.uri) for root in answer.roots] if isinstance(answer, ListRootsResult) else None


def supported(ctx: Context, questions: dict[str, InputRequest]) -> dict[str, InputRequest]:
    """Only those of the questions that this client said it can answer."""
    can = ctx.client_capabilities
    able = {
        "elicitation/create": can is not None and can.elicitation is not None,
        "sampling/createMessage": can is not None and can.sampling is not None,
        "roots/list": can is not None and can.roots is not None,
    }
    return {key: question for key, question in questions.items() if able[question.method]}


async def ask_name(ctx: Context) -> str | InputRequiredResult:
    """Greets the user by the name they give."""
    name = filled_in(ctx, "user_name", "name")
    return ask({"user_name": form("What is your name?", NAME)}) if name is None else f"Hello, {name}!"


async def ask_model(ctx: Context) -> str | InputRequiredResult:
    """Asks the client's model for a capital."""
    answer = sampled(ctx, "capital_question")
    return answer or ask({"capital_question": sample("What is the capital of France?", 100)})


async def ask_roots(ctx: Context) -> str | InputRequiredResult:
    """Names the client's roots."""
    roots = rooted(ctx, "client_roots")
    return ask({"client_roots": ListRootsRequest()}) if roots is None else f"Roots: {', '.join(roots)}"


async def ask_consent(ctx: Context) -> str | InputRequiredResult:
    """Remembers, in the request state, that it asked."""
    if ctx.request_state != "asked" or filled_in(ctx, "confirm", "ok") is None:
        return ask({"confirm": form("Please confirm", {"ok": "boolean"})}, state="asked")
    return "state-ok"


async def ask_everything(ctx: Context) -> str | InputRequiredResult:
    """Asks the user, the model and for the roots in one round."""
    name, greeting, roots = filled_in(ctx, "user_name", "name"), sampled(ctx, "greeting"), rooted(ctx, "client_roots")
    if name is not None and greeting is not None and roots is not None:
        return f"{greeting} {name}, of {', '.join(roots)}"
    questions: dict[str, InputRequest] = {
        "user_name": form("What is your name?", NAME),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    return ask(questions, state="asked")


async def ask_twice(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name, then for a color; the name waits in the request state."""
    if ctx.request_state is None or not ctx.request_state.startswith("name:"):
        name = filled_in(ctx, "step1", "name")
        if name is None:
            return ask({"step1": form("Step 1: What is your name?", NAME)}, state="started")
    else:
        name = ctx.request_state.removeprefix("name:")
    color = filled_in(ctx, "step2", "color")
    if color is None:
        question = form("Step 2: What is your favorite color?", {"color": "string"})
        return ask({"step2": question}, state=f"name:{name}")
    return f"{name} likes {color}"


async def ask_what_is_supported(ctx: Context) -> str | InputRequiredResult:
    """Asks in whichever way the client declared."""
    name, greeting = filled_in(ctx, "user_name", "name"), sampled(ctx, "greeting")
    if name is not None or greeting is not None:
        return f"{greeting or 'Hello'} {name or ''}".strip()
    questions: dict[str, InputRequest] = {
        "user_name": form("What is your name?", NAME),
        "greeting": sample("Generate a greeting", 50),
    }
    return ask(possible) if (possible := supported(ctx, questions)) else "Nobody to ask."


async def prompt_with_context(ctx: Context) -> str | InputRequiredResult:
    """A prompt around the context that the user gives."""
    context = filled_in(ctx, "user_context", "context")
    if context is None:
        return ask({"user_context": form("What context should the prompt use?", {"context": "string"})})
    return f"Use this context: {context}"


def add_asking(mcp: MCPServer) -> None:
    """Register all of it under the names that the suite calls."""
    tools = {
        "elicitation": ask_name,
        "sampling": ask_model,
        "list_roots": ask_roots,
        "request_state": ask_consent,
        "tampered_state": ask_consent,
        "multiple_inputs": ask_everything,
        "multi_round": ask_twice,
        "capabilities": ask_what_is_supported,
    }
    for name, tool in tools.items():
        mcp.add_tool(tool, name=f"test_input_required_result_{name}")
    mcp.add_tool(ask_name, name="test_streaming_elicitation")
    mcp.prompt(name="test_input_required_result_prompt")(prompt_with_context)

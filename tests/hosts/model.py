"""A scripted model behind the APIs that hosts call: Anthropic Messages, OpenAI Responses and Chat, and Gemini.

A prompt that contains a word of `plan` is answered with the tool calls of that word, and everything else with a short
text. So a scenario says what the model does by the words that it types. What the host sends is kept in `requests`, in
one form for all APIs.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.server.serving import serving

Json = dict[str, Any]

WOKEN = re.compile(r"<task-notification>.*?</task-notification>", re.DOTALL)
"""What Claude Code tells a model by itself. If it has several to tell, it may do so in one turn."""


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes. The tool is named without the prefix that a host gives it."""

    tool: str
    arguments: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Asked:
    """One request of a host to its model."""

    at: float
    tools: tuple[str, ...]
    """Names of the tools on offer. A request without tools is about something else, for example a title."""
    news: str
    """Everything that came after the model's last words: prompts, results of tools, notifications."""

    @property
    def woken(self) -> bool:
        return bool(WOKEN.search(self.news))

    def full_name(self, tool: str) -> str | None:
        """Returns the name under which the host offers a tool: that of the server, rather than one of its own."""
        names = [name for name in self.tools if name.endswith(f"_{tool}")]
        return names[0] if names else tool if tool in self.tools else None


Calls = list[Call]


class Model:
    """What the model does, and what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.plan: dict[str, Calls] = {}
        self.on_wake: Callable[[Asked], Calls] = lambda _: []
        self.requests: list[Asked] = []
        self.missing: set[str] = set()
        """Tools that it wanted to call, but the host did not offer."""
        self._news = asyncio.Condition()

    @property
    def wakes(self) -> list[Asked]:
        """The notifications that the model was woken by."""
        return [replace(asked, news=told) for asked in self.requests for told in WOKEN.findall(asked.news)]

    async def until(self, condition: Callable[[], object], seconds: float, what: str) -> None:
        """Waits until requests have made a condition true. Raises `TimeoutError` that says what was waited for."""
        try:
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait_for(condition)
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {seconds:g} s") from None

    async def answer(self, asked: Asked) -> tuple[str, Calls]:
        async with self._news:
            if asked.tools:
                self.requests.append(asked)
            self._news.notify_all()
        wanted = self._wanted(asked)
        self.missing.update(call.tool for call in wanted if asked.full_name(call.tool) is None)
        calls = [Call(name, call.arguments) for call in wanted if (name := asked.full_name(call.tool))]
        return ("" if calls else "All right."), calls

    def _wanted(self, asked: Asked) -> Calls:
        if not asked.tools:
            return []
        if asked.woken:
            return self.on_wake(asked)
        return next((calls for word, calls in self.plan.items() if word in asked.news), [])


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[Model]:
    """Serves a model on loopback."""
    model = Model()

    def route(path: str, parse: Callable[[Json], Asked], respond: Callable[..., Response]) -> Route:
        async def serve(request: HttpRequest) -> Response:
            body: Json = await request.json()
            text, calls = await model.answer(parse(body))
            return respond(body, text, calls)

        return Route(path, serve, methods=["POST"])

    routes = [
        route("/v1/messages", _from_anthropic, _as_anthropic),
        route("/v1/responses", _from_responses, _as_responses),
        route("/v1/chat/completions", _from_chat, _as_chat),
        route("/v1beta/models/{model}:streamGenerateContent", _from_gemini, _as_gemini),
        route("/v1beta/models/{model}:generateContent", _from_gemini, _as_gemini_whole),
    ]
    async with serving(Starlette(routes=routes)) as model.port:
        yield model


_ids = count(1)


def _asked(tools: Iterator[str], news: Iterator[str]) -> Asked:
    return Asked(time.time(), tuple(tools), "\n".join(news))


def _events(events: list[tuple[str | None, Json]], *, done: str = "") -> Response:
    lines = [f"event: {name}\n" * (name is not None) + f"data: {json.dumps(data)}\n\n" for name, data in events]
    return Response("".join(lines) + done, media_type="text/event-stream")


def _texts(content: Any) -> Iterator[str]:
    """Every text in a message, whatever its API calls the parts."""
    match content:
        case str():
            yield content
        case list():
            for part in content:
                yield from _texts(part)
        case dict():
            for key in ("text", "content", "parts", "functionResponse", "response", "output"):
                yield from _texts(content.get(key))
        case _:
            pass


def _since_the_model_spoke(items: list[Json], spoke: Callable[[Json], bool]) -> list[Json]:
    last = max((place for place, item in enumerate(items) if spoke(item)), default=-1)
    return items[last + 1 :]


# Anthropic Messages


def _from_anthropic(body: Json) -> Asked:
    new = _since_the_model_spoke(body.get("messages", []), lambda message: message["role"] == "assistant")
    return _asked((tool["name"] for tool in body.get("tools", [])), _texts(new))


def _as_anthropic(body: Json, text: str, calls: Calls) -> Response:
    blocks: list[Json] = [
        {"type": "tool_use", "id": f"toolu_{next(_ids)}", "name": call.tool, "input": call.arguments} for call in calls
    ] or [{"type": "text", "text": text}]
    message: Json = {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    reason = "tool_use" if calls else "end_turn"
    if not body.get("stream"):
        return JSONResponse({**message, "content": blocks, "stop_reason": reason})
    events: list[tuple[str | None, Json]] = [
        ("message_start", {"message": {**message, "content": [], "stop_reason": None}})
    ]
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            start, delta = {**block, "input": {}}, {"partial_json": json.dumps(block["input"])}
            delta["type"] = "input_json_delta"
        else:
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        events += [
            ("content_block_start", {"index": index, "content_block": start}),
            ("content_block_delta", {"index": index, "delta": delta}),
            ("content_block_stop", {"index": index}),
        ]
    end = {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}}
    events += [("message_delta", end), ("message_stop", {})]
    return _events([(name, {"type": name, **data}) for name, data in events])


# OpenAI Responses


def _from_responses(body: Json) -> Asked:
    def names(tools: list[Json]) -> Iterator[str]:
        for tool in tools:
            if tool.get("type") == "namespace":
                yield from (f"{tool['name']}::_{inner['name']}" for inner in tool.get("tools", []))
            else:
                yield tool.get("name", tool["type"])

    def spoke(item: Json) -> bool:
        return item.get("role") == "assistant" or item.get("type") in {"function_call", "reasoning"}

    items: Any = body.get("input", [])
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items
    return _asked(names(body.get("tools", [])), _texts(_since_the_model_spoke(items, spoke)))


def _as_responses(body: Json, text: str, calls: Calls) -> Response:
    def item(call: Call) -> Json:
        namespace, separator, name = call.tool.rpartition("::_")
        place = {"namespace": namespace} if separator else {}
        arguments = json.dumps(call.arguments)
        return {"type": "function_call", "call_id": f"call_{next(_ids)}", "name": name, "arguments": arguments, **place}

    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    items = [{"id": f"item_{next(_ids)}", **each} for each in [*map(item, calls)] or [said]]
    usage = {
        "input_tokens": 1,
        "input_tokens_details": None,
        "output_tokens": 1,
        "output_tokens_details": None,
        "total_tokens": 2,
    }
    response = {"id": f"resp_{next(_ids)}", "object": "response", "output": items, "usage": usage}
    if not body.get("stream"):
        return JSONResponse({**response, "status": "completed"})
    events: list[tuple[str | None, Json]] = [("response.created", {"response": {"id": response["id"]}})]
    events += [("response.output_item.done", {"output_index": place, "item": each}) for place, each in enumerate(items)]
    events.append(("response.completed", {"response": {**response, "status": "completed"}}))
    return _events([(name, {"type": name, **data}) for name, data in events])


# OpenAI Chat


def _from_chat(body: Json) -> Asked:
    new = _since_the_model_spoke(body.get("messages", []), lambda message: message["role"] == "assistant")
    tools = (tool["function"]["name"] for tool in body.get("tools", []))
    return _asked(tools, _texts([message for message in new if message["role"] != "system"]))


def _as_chat(body: Json, text: str, calls: Calls) -> Response:
    called = [
        {
            "index": index,
            "id": f"call_{next(_ids)}",
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(calls)
    ]
    message: Json = {"role": "assistant", "content": text or None, **({"tool_calls": called} if called else {})}
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    common = {"id": f"chat_{next(_ids)}", "created": int(time.time()), "model": body.get("model", "scripted")}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return JSONResponse({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
    chunk = {**common, "object": "chat.completion.chunk"}
    return _events(
        [
            (None, {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
            (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
        ],
        done="data: [DONE]\n\n",
    )


# Gemini


def _from_gemini(body: Json) -> Asked:
    declared = (each for tool in body.get("tools", []) for each in tool.get("functionDeclarations", []))
    new = _since_the_model_spoke(body.get("contents", []), lambda content: content.get("role") == "model")
    return _asked((each["name"] for each in declared), _texts(new))


def _gemini_answer(text: str, calls: Calls) -> Json:
    parts = [{"functionCall": {"name": call.tool, "args": call.arguments}} for call in calls] or [{"text": text}]
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def _as_gemini(_: Json, text: str, calls: Calls) -> Response:
    return _events([(None, _gemini_answer(text, calls))])


def _as_gemini_whole(_: Json, text: str, calls: Calls) -> Response:
    return JSONResponse(_gemini_answer(text, calls))

"""Questions to the client's own model, in both eras: what a tool asks while it works.

In the old era the question is a request of its own, in the middle of the call. In the modern one the call is answered
with the questions, and made again with the answers: the work begins anew each time, and each of its questions that was
answered before is answered at once. So the work has to ask the same questions in the same words each time.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import anyio
import anyio.lowlevel
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequests,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import is_version_at_least

from tidings.web.packets.mapreduce import SampleFailed

T = TypeVar("T")

Sample = Callable[[str, int], Awaitable[str]]
"""Asks the model: a prompt, and how many tokens the answer may have.

Raises:
    Declined: There is no answer.
"""

_MODERN: Final = "2026-07-28"
_AT_ONCE: Final = 4
"""How many questions a client of the old era is asked at the same time; one of the modern era gets them all."""

_QUIET_TURNS: Final = 20
"""After so many turns of the event loop in which nothing was asked, everything that can be asked now was asked."""


class Declined(SampleFailed):
    """The client's model gave no answer. Says why."""


def offers_sampling(ctx: Context[Any, Any]) -> bool:
    """Whether the client has a model to ask."""
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


async def with_sampling(
    ctx: Context[Any, Any], work: Callable[[Sample | None], Awaitable[T]]
) -> T | InputRequiredResult:
    """Do `work` with a way to ask the client's model; None where the client has none."""
    if not offers_sampling(ctx):
        return await work(None)
    if not is_version_at_least(ctx.protocol_version or "", _MODERN):
        room = anyio.CapacityLimiter(_AT_ONCE)
        return await work(lambda prompt, most: _ask_now(ctx, room, prompt, most))
    return await _Rounds(ctx).run(work)


async def _ask_now(ctx: Context[Any, Any], room: anyio.CapacityLimiter, prompt: str, most: int) -> str:
    try:
        async with room:
            answer = await ctx.session.send_request(
                _request(prompt, most),
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=ctx.request_context.request_id),
            )
    except MCPError as error:
        raise Declined(f"The client's model did not answer: {error.error.message}") from error
    return _text(answer)


class _Rounds:
    """One call of the modern era: what was answered in the rounds before, and what is asked in this one."""

    def __init__(self, ctx: Context[Any, Any]) -> None:
        state = cast("dict[str, Any]", json.loads(ctx.request_state)) if ctx.request_state else {}
        self._answers: dict[str, str] = dict(state.get("answers", {}))
        self._asked: set[str] = set(state.get("asked", ()))
        for key, response in (ctx.input_responses or {}).items():
            if key in self._asked and isinstance(response, CreateMessageResult):
                with suppress(Declined):
                    self._answers[key] = _text(response)
        self._open: InputRequests = {}
        self._asks = anyio.Event()

    async def run(self, work: Callable[[Sample | None], Awaitable[T]]) -> T | InputRequiredResult:
        done: list[T] = []
        failed: list[Exception] = []

        async def do() -> None:
            try:
                done.append(await work(self._sample))
            except Exception as error:  # noqa: BLE001 - raised below, as itself and not as one of a group
                failed.append(error)
            self._asks.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(do)
            await self._asks.wait()
            await self._until_quiet()
            tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]
        if done:
            return done[0]
        asked = sorted(self._asked | set(self._open))
        return InputRequiredResult(
            input_requests=self._open, request_state=json.dumps({"answers": self._answers, "asked": asked})
        )

    async def _sample(self, prompt: str, most: int) -> str:
        key = hashlib.sha256(f"{most}|{prompt}".encode(errors="replace")).hexdigest()[:16]
        if key in self._answers:
            return self._answers[key]
        if key in self._asked:
            raise Declined("The client's model did not answer.")
        self._open[key] = _request(prompt, most)
        self._asks.set()
        await anyio.sleep_forever()
        raise AssertionError  # It is cancelled.

    async def _until_quiet(self) -> None:
        quiet, seen = 0, -1
        while quiet < _QUIET_TURNS:
            quiet, seen = (quiet + 1, seen) if len(self._open) == seen else (0, len(self._open))
            await anyio.lowlevel.checkpoint()


def _request(prompt: str, most: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=most))


def _text(answer: CreateMessageResult) -> str:
    if not isinstance(answer.content, TextContent):
        raise Declined("The client's model answered with something else than text.")
    return answer.content.text

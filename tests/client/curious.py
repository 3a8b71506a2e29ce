"""Servers that ask the user, and clients of them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types

from tests.client.asking import FORM, Asking
from tests.client.library import Library
from tests.server.serving import serving
from tidings.client import LiveClient, connect


@asynccontextmanager
async def asked(era: str, transport: str = "memory", **options: Any) -> AsyncGenerator[LiveClient]:
    """A client of a server that asks."""
    server = Asking()
    if transport == "memory":
        async with connect(server, era=era, **options) as client:
            yield client
        return
    async with (
        serving(server.streamable_http_app()) as port,
        connect(f"http://127.0.0.1:{port}/mcp", era=era, **options) as client,
    ):
        yield client


class Curious(Library):
    """A server of the modern era that asks by its results, unless `question` is None."""

    question: types.InputRequiredResult | None = types.InputRequiredResult(
        input_requests={"who": types.ElicitRequest(params=FORM)}
    )

    async def _read(self, ctx: Any, params: Any) -> Any:
        return await super()._read(ctx, params) if params.input_responses or self.question is None else self.question

    async def _get_prompt(self, ctx: Any, params: Any) -> Any:
        return (
            await super()._get_prompt(ctx, params) if params.input_responses or self.question is None else self.question
        )

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        return (
            await super().call_tool(ctx, params) if params.input_responses or self.question is None else self.question
        )

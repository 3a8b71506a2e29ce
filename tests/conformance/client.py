"""The client under test: the suite runs `python -m tests.conformance.client URL` for each scenario.

The scenario's name, and what the client must know for it, are in the environment. Everything is done with
`tidings.connect`, in whichever era it finds; a scenario in which the client must refuse to go on ends with the error
that it raised.
"""

import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.conformance import oauth
from tests.conformance.oauth import Given
from tests.conformance.suite import DONE
from tidings.client import ClientConfig, ListChanged, LiveClient, PendingRequest, connect
from tidings.errors import NotAuthorized

Run = Callable[[str, Given], Awaitable[None]]


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[LiveClient]:
    """A client, in the modern era if that is what the suite speaks."""
    async with connect(url, **options) as client:
        wanted = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
        assert client.protocol_version == wanted or wanted not in MODERN_PROTOCOL_VERSIONS
        yield client


async def initialize(url: str, _: Given) -> None:
    async with connected(url) as client:
        await client.list_tools()


async def tools_call(url: str, _: Given) -> None:
    async with connected(url) as client:
        await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def sse_retry(url: str, _: Given) -> None:
    async with connected(url) as client:
        await client.call_tool("test_reconnection")


async def elicitation_defaults(url: str, _: Given) -> None:
    async with connected(url, answer=lambda _: {}) as client:
        await client.call_tool("test_client_elicitation_defaults")


async def request_metadata(url: str, _: Given) -> None:
    """The client can do all that it may declare."""
    async with connected(url, answer="ask", roots=[Path.cwd()]) as client:
        await client.list_tools()


async def request_state(url: str, _: Given) -> None:
    """Another tool is called while the user is asked."""
    asked, unrelated = anyio.Event(), anyio.Event()

    async def confirm(_: PendingRequest) -> dict[str, Any]:
        asked.set()
        await unrelated.wait()
        return {"confirmed": True}

    async with (
        connected(url, answer=confirm, config=ClientConfig(concurrency=2)) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.call_tool, "test_mrtr_echo_state")
        await asked.wait()
        await client.call_tool("test_mrtr_unrelated")
        unrelated.set()
        await client.call_tool("test_mrtr_no_state")
        await client.call_tool("test_mrtr_no_result_type")


async def standard_headers(url: str, _: Given) -> None:
    async with connected(url) as client:
        for tool in client.tools:
            await client.call_tool(tool.name)
        for resource in client.resources:
            await client.read_resource(resource.uri)
        for prompt in client.prompts:
            await client.get_prompt(prompt.name)


async def custom_headers(url: str, given: Given) -> None:
    async with connected(url) as client:
        for call in given["toolCalls"]:
            await client.call_tool(call["name"], call["arguments"])


async def invalid_tool_headers(url: str, _: Given) -> None:
    """Whatever tool the client shows is called."""
    async with connected(url) as client:
        for tool in client.tools:
            await client.call_tool(tool.name, dict.fromkeys(tool.input_schema["properties"], "somewhere"))


async def schemas_kept(url: str, _: Given) -> None:
    async with connected(url) as client:
        shown = {tool.name: tool.input_schema for tool in client.tools}
        await client.call_tool("json_schema_echo", {"schema": shown["json_schema_2020_12_tool"]})


async def signed_in(url: str, auth: Any) -> None:
    only_when_asked = ClientConfig(list_changed=ListChanged(tools=False))
    async with connected(url, auth=auth, config=only_when_asked) as client:
        (tool,) = await client.list_tools()
        await client.call_tool(tool.name)


async def by_consent(url: str, given: Given) -> None:
    await signed_in(url, oauth.by_consent(url, given))


async def by_secret(url: str, given: Given) -> None:
    await signed_in(url, oauth.by_secret(url, given))


async def by_key(url: str, given: Given) -> None:
    await signed_in(url, oauth.by_key(url, given))


async def by_enterprise(url: str, given: Given) -> None:
    await signed_in(url, await oauth.by_enterprise(url, given))


async def refused(url: str, given: Given) -> None:
    """The client does not get in, and says why."""
    try:
        await by_consent(url, given)
    except NotAuthorized as error:
        sys.stdout.write(f"{error}\n")
    else:
        raise AssertionError("the client should not have gone on")


RUNS: dict[str, Run] = {
    "initialize": initialize,
    "tools_call": tools_call,
    "sse-retry": sse_retry,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "request-metadata": request_metadata,
    "sep-2322-client-request-state": request_state,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_tool_headers,
    "json-schema-ref-no-deref": initialize,
    "json-schema-2020-12-preservation": schemas_kept,
    "auth/client-credentials-basic": by_secret,
    "auth/client-credentials-jwt": by_key,
    "auth/cross-app-access-complete-flow": by_enterprise,
    "auth/enterprise-managed-authorization": by_enterprise,
    "auth/scope-retry-limit": refused,
    "auth/resource-mismatch": refused,
    "auth/iss-supported-missing": refused,
    "auth/iss-wrong-issuer": refused,
    "auth/iss-unexpected": refused,
    "auth/iss-normalized": refused,
    "auth/metadata-issuer-mismatch": refused,
}
"""What the client does in each scenario. In the other `auth/` ones a user consents; else it only connects."""


def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    run = RUNS.get(scenario, by_consent if scenario.startswith("auth/") else initialize)
    anyio.run(run, url, given)
    sys.stdout.write(DONE)


if __name__ == "__main__":
    main(sys.argv[1])

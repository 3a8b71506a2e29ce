"""What a server says besides its answers is told as events; and a failure is raised, kept and told by its name."""

import asyncio
import sys
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.library import ERAS, SECONDS, Library, connected, eventually, hear
from tests.client.peers import fast, live
from tests.client.ways import environment
from tests.server.serving import ROOT
from tidings import ResourceUpdated
from tidings.client import ClientConfig, connect
from tidings.client.events import (
    CancelledReceived,
    EventsMissed,
    GarbageReceived,
    LogReceived,
    NotificationReceived,
    PromptContentChanged,
    ResourceContentChanged,
    ResourceTemplateContentChanged,
    StderrReceived,
    ToolCallResultChanged,
)
from tidings.errors import RequestFailed, ResourceNotFound

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]

LOUD = """
import sys
print("a banner", flush=True)
print("it begins", file=sys.stderr, flush=True)
from tests.client.peers import live
live().run("stdio")
"""


@pytest.mark.parametrize(("server", "era"), [(live, "auto"), (fast, "auto"), (fast, "legacy")])
async def test_a_log_message_comes_if_its_level_was_asked_for(server: Any, era: str) -> None:
    async with connect(server(), era=era, log_level="warning") as client:
        told = hear(client, LogReceived)
        with anyio.fail_after(SECONDS):
            await client.call_tool("speak")
        await eventually(lambda: told)
        assert [(event.level, event.logger) for event in told] == [("warning", "weather")]
    async with connect(server(), era=era, log_level="error") as client:
        told = hear(client, LogReceived)
        with anyio.fail_after(SECONDS):
            await client.call_tool("speak")
            await client.call_tool("echo", {"text": "after it"})
        assert told == []


async def test_what_a_command_says_beside_the_protocol_is_told() -> None:
    options: Any = {"env": environment(), "cwd": ROOT}
    client = connect([sys.executable, "-c", LOUD], **options)
    said, garbage = hear(client, StderrReceived), hear(client, GarbageReceived)
    with anyio.fail_after(20):
        await client.connect()
        assert said[0] == StderrReceived("it begins")
        assert garbage == [GarbageReceived("a banner")]
        assert (await client.read_resource("city://oslo")).text == "the weather in oslo"
        await client.aclose()


async def test_notifications_that_nobody_knows_are_told_as_they_are() -> None:
    library = Library()
    async with connected(library, "legacy") as client:
        told = hear(client, NotificationReceived, CancelledReceived)
        note = types.ElicitCompleteNotification(params=types.ElicitCompleteNotificationParams(elicitation_id="7"))
        await library.session.send_notification(note)
        cancelled = types.CancelledNotification(params=types.CancelledNotificationParams(request_id=99, reason="tired"))
        await library.session.send_notification(cancelled)
        await eventually(lambda: len(told) == 2)
        assert told == [
            NotificationReceived("notifications/elicitation/complete", {"elicitationId": "7"}),
            CancelledReceived(99, "tired"),
        ]


@ERAS
async def test_a_call_that_fails_is_raised_by_name_and_kept_and_told(era: str) -> None:
    library = Library()
    library.broken["t1"] = MCPError(-32603, "The roof leaks", {"where": "kitchen"})
    async with connected(library, era) as client:
        told = hear(client, ToolCallResultChanged)
        with anyio.fail_after(SECONDS), pytest.raises(RequestFailed, match="The roof leaks") as failed:
            await client.call_tool("t1", {"a": 1}, {"dev.example/trace": "x"})
        assert (failed.value.method, failed.value.server) == ("tools/call", client.name)
        assert failed.value.data["rpc_data"] == {"where": "kitchen"}
        (event,) = told
        call = event.call
        assert client.cache.get_tool_call_result("t1") is call
        assert (call.tool_name, call.params, call.metadata) == ("t1", {"a": 1}, {"dev.example/trace": "x"})
        assert (call.success, call.result, call.error) == (False, None, "The roof leaks")


@ERAS
async def test_arguments_are_completed(era: str) -> None:
    async with connected(Library(), era) as client:
        prompt = types.PromptReference(name="p1")
        template = types.ResourceTemplateReference(uri="a://{x}")
        with anyio.fail_after(SECONDS):
            first = await client.complete(prompt, {"name": "what", "value": "ra"})
            second = await client.complete(template, {"name": "x", "value": "1"}, {"y": "2"})
        assert first.completion.values == ["ref/prompt ra! None"]
        assert second.completion.values == ["ref/resource 1! {'y': '2'}"]


@ERAS
async def test_a_failed_read_or_prompt_leaves_what_was_there(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            read, prompt = await client.read_resource("note://1"), await client.get_prompt("p1")
            filled = await client.read_resource_from_template("a://{x}", {"x": "1"})
            told = hear(client, ResourceContentChanged, PromptContentChanged, ResourceTemplateContentChanged)
            broken = MCPError(-32603, "The roof leaks")
            library.broken.update({"note://1": broken, "p1": broken, "a://1": broken})
            for asked in (
                client.read_resource("note://1"),
                client.get_prompt("p1"),
                client.read_resource_from_template("a://{x}", {"x": "1"}),
            ):
                with pytest.raises(RequestFailed, match="The roof leaks"):
                    await asked
        assert told == []
        assert client.cache.get_resource("note://1") is read
        assert client.cache.get_prompt("p1") is prompt
        assert client.cache.get_resource_template("a://{x}") is filled


@ERAS
async def test_a_read_drops_every_older_copy_of_what_changed_or_is_gone(era: str) -> None:
    library = Library()
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            await client.read_resource_from_template("a://{x}", {"x": "1"})
            library.texts["a://1"] = "new"
            read = await client.read_resource("a://1")
            assert client.cache.get_resource("a://1") is read
            assert client.cache.get_resource_template("a://{x}") is None
            told = hear(client, ResourceUpdated)
            library.broken["a://1"] = MCPError(-32002, "Resource not found", {"uri": "a://1"})
            with pytest.raises(ResourceNotFound):
                await client.read_resource("a://1")
        assert client.cache.get_resource("a://1") is None
        assert told == [ResourceUpdated("a://1")]


@ERAS
async def test_a_resource_or_template_that_is_not_there_is_said_to_be_so(era: str) -> None:
    library = Library()
    library.broken["note://9"] = MCPError(-32002, "Resource not found", {"uri": "note://9"})
    async with connected(library, era) as client:
        with anyio.fail_after(SECONDS):
            with pytest.raises(ResourceNotFound):
                await client.read_resource("note://9")
            with pytest.raises(ResourceNotFound, match=r"it has a://\{x\}, b://\{x\}"):
                await client.read_resource_from_template("z://{x}", {"x": "1"})


@ERAS
async def test_every_event_comes_in_one_stream_and_a_slow_reader_is_told_what_it_missed(era: str) -> None:
    library = Library()
    async with connected(library, era, config=ClientConfig()) as client:
        events, slow = client.events(), client.events(limit=3)
        first, also = asyncio.create_task(anext(events)), asyncio.create_task(anext(slow))
        await asyncio.sleep(0)
        with anyio.fail_after(SECONDS):
            await client.subscribe("note://1")
            await first
            await also
            for number in range(10):
                await library.write("note://1", str(number))
            seen = []
            while ResourceUpdated("note://1") not in seen:
                seen.append(await anext(events))
            await eventually(lambda: client.cache.get_resource("note://1") is None)
            read = await client.read_resource("note://1")
            while ResourceContentChanged("note://1", read) not in seen:
                seen.append(await anext(events))
            missed = await anext(slow)
        assert isinstance(missed, EventsMissed)
        assert missed.count >= 1


@ERAS
async def test_a_handler_that_fails_reaches_nobody_else(era: str, caplog: pytest.LogCaptureFixture) -> None:
    library = Library()
    async with connected(library, era) as client:

        def fail(_: object) -> None:
            raise RuntimeError("a handler's own fault")

        async def fail_later(_: object) -> None:
            fail(_)

        client.on(ResourceUpdated, fail)
        client.on(ResourceUpdated, fail_later)
        told = hear(client, ResourceUpdated)
        stop = client.on(ResourceUpdated, told.append)
        stop()
        with anyio.fail_after(SECONDS):
            await client.subscribe("note://1")
        await library.write("note://1", "new")
        await eventually(lambda: told)
        await eventually(lambda: len(caplog.records) == 2)
        assert told == [ResourceUpdated("note://1")]
        assert client.connected

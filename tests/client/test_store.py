"""What a state file keeps, and when it is written."""

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tests.client.invoked import WHEN, prompt, resource, template, tool
from tests.client.states import ask, cursor_in, locked, opened, saved, some_turns, until
from tidings.client.cache import ContentKind, Invocation, PromptGet, ResourceRead, TemplateRead, ToolCall, place_of
from tidings.client.state_file import Saved, StateFile, decode, encode

pytestmark = pytest.mark.anyio

A, B, C = "note://a", "note://b", "note://c"
TEMPLATE = "note://{name}"
META = {"dev.tidings/x": [1, None, {"y": 1.5}]}
EACH: list[Invocation] = [
    ResourceRead(
        A,
        ReadResourceResult(
            contents=[
                TextResourceContents(uri=A, text="Blåbærgrød\0 🎈", mime_type="text/plain", _meta=META),
                BlobResourceContents(uri=A, blob="AAEC"),
            ],
            ttl_ms=60_000,
            cache_scope="public",
            _meta=META,
        ),
        WHEN,
        {"traceparent": "00-ab"},
    ),
    TemplateRead(TEMPLATE, B, {"name": "b"}, ReadResourceResult(contents=[]), WHEN, MappingProxyType({"a": [1]})),
    PromptGet(
        "greet",
        GetPromptResult(
            description="Greets",
            messages=[
                PromptMessage(role="user", content=TextContent(text="Hi", annotations=Annotations(priority=0.5))),
                PromptMessage(role="assistant", content=ImageContent(data="AA==", mime_type="image/png")),
                PromptMessage(role="user", content=AudioContent(data="AA==", mime_type="audio/wav")),
            ],
        ),
        {"city": "Ås"},
        WHEN,
        {},
    ),
    ToolCall(
        "add",
        {"a": [1, {"b": None}], "large": 2**80},
        CallToolResult(
            content=[
                ResourceLink(name="b", uri=B, title="B"),
                EmbeddedResource(resource=BlobResourceContents(uri=A, blob="AA==")),
            ],
            structured_content={"sum": 3},
            is_error=True,
            _meta=META,
        ),
        success=True,
        timestamp=WHEN,
        metadata={"n": 1},
    ),
    ToolCall("fail", {}, None, success=False, error="It did not answer.", timestamp=WHEN),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


async def test_a_new_file_holds_nothing(path: Path) -> None:
    assert await saved(path) == Saved((), frozenset(), frozenset(), None)


async def test_everything_is_found_again_as_it_was(path: Path) -> None:
    async with opened(path) as state:
        for invocation in EACH:
            state.note_put(invocation, covered=False)
        state.note_subscriptions([A, "note://*"])
        state.note_cursor("epoch:7")
    assert await saved(path) == Saved(tuple(EACH), frozenset(), frozenset({A, "note://*"}), "epoch:7")


json_texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | json_texts,
    lambda values: st.lists(values) | st.dictionaries(json_texts, values),
    max_leaves=10,
)
json_objects = st.dictionaries(json_texts, json_values)


@given(
    invocation=st.builds(
        ToolCall,
        json_texts,
        json_objects,
        st.builds(
            CallToolResult,
            content=st.lists(st.builds(TextContent, text=json_texts)),
            structured_content=json_values,
            _meta=st.none() | json_objects,
        ),
        st.booleans(),
        st.none() | json_texts,
        st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        st.none() | json_objects,
    )
)
def test_whatever_can_come_over_the_wire_is_read_back_as_it_was(invocation: ToolCall) -> None:
    content = encode(invocation)
    assert content is not None
    assert decode(*place_of(invocation), content) == invocation


async def test_what_is_noted_is_written_soon_by_itself_and_all_at_once(path: Path) -> None:
    async with opened(path, delay=0.05) as state:
        await state.load()
        for n in range(5):
            state.note_put(resource(f"note://{n}"), covered=False)
        state.note_cursor("epoch:1")
        assert cursor_in(path) is None
        await until(lambda: cursor_in(path) == "epoch:1")
        assert ask(path, "SELECT count(*) FROM entries") == [(5,)]


async def test_what_is_noted_while_another_write_is_under_way_follows_it(path: Path) -> None:
    async with opened(path, delay=0) as state:
        await state.load()
        with locked(path):
            state.note_cursor("epoch:1")
            await some_turns()
            state.note_cursor("epoch:2")
        await until(lambda: cursor_in(path) == "epoch:2")


async def test_nothing_is_written_before_its_time(path: Path) -> None:
    async with opened(path) as state:
        await state.load()
        state.note_cursor("epoch:1")
        await some_turns()
        assert cursor_in(path) is None
        await state.flush()
        assert cursor_in(path) == "epoch:1"


async def test_what_was_noted_is_written_when_the_file_is_closed(path: Path) -> None:
    state = StateFile(path, "me", delay=3600)
    state.note_cursor("epoch:1")
    await state.aclose()
    assert cursor_in(path) == "epoch:1"


async def test_the_last_of_several_notes_about_one_thing_counts(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A, "old"), covered=True)
        state.note_put(resource(B), covered=True)
        state.note_put(resource(C), covered=False)
        state.note_put(resource(A, "new"), covered=False)
        state.note_removed(ContentKind.RESOURCE, B)
        state.note_subscriptions({A, B})
        state.note_subscriptions({A})
        state.note_cursor("epoch:1")
        state.note_cursor(None)
    # In the order in which they were put.
    assert await saved(path) == Saved((resource(C), resource(A, "new")), frozenset(), frozenset({A}), None)


async def test_what_was_written_earlier_is_replaced_and_removed(path: Path) -> None:
    async with opened(path) as state:
        for uri in (A, B, C):
            state.note_put(resource(uri), covered=True)
        state.note_subscriptions({A, B})
        await state.flush()
        state.note_put(resource(A, "new"), covered=True)
        state.note_removed(ContentKind.RESOURCE, B)
        state.note_subscriptions({B, C})
        await state.flush()
    found = await saved(path)
    # In the order in which they were put.
    assert found.invocations == (resource(C), resource(A, "new"))
    assert found.covered == {A, C}
    assert found.subscriptions == {B, C}


async def test_a_removal_is_of_one_kind_only(path: Path) -> None:
    same: list[Invocation] = [resource("x:"), template("x:", "x:"), prompt("x:"), tool("x:")]
    async with opened(path) as state:
        for invocation in same:
            state.note_put(invocation, covered=False)
        await state.flush()
        state.note_removed(ContentKind.PROMPT, "x:")
    assert (await saved(path)).invocations == (same[0], same[1], same[3])


async def test_what_was_loaded_stays_until_it_is_noted_otherwise(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_subscriptions({A})
        state.note_cursor("epoch:1")
    async with opened(path) as state:
        before = await state.load()
        state.note_put(tool("add"), covered=False)
    assert await saved(path) == Saved(
        (*before.invocations, tool("add")), before.covered, before.subscriptions, before.cursor
    )


async def test_a_process_that_only_looks_leaves_everything_as_it_was(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_subscriptions({A})
        state.note_cursor("epoch:1")
    found = [await saved(path) for _ in range(3)]
    assert found == [Saved((resource(A),), frozenset({A}), frozenset({A}), "epoch:1")] * 3


async def test_a_resource_is_covered_only_if_all_that_was_read_of_it_is(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_put(template("{+a}", A), covered=False)
        state.note_put(resource(B), covered=True)
        state.note_put(template("{+b}", B), covered=True)
        state.note_put(template("{+c}", C), covered=True)
        state.note_put(prompt("greet"), covered=True)
    assert (await saved(path)).covered == {B, C}


async def test_clearing_forgets_what_was_saved_and_what_was_noted_and_nothing_else(path: Path) -> None:
    async with opened(path, "other") as other:
        other.note_put(resource(A), covered=True)
        other.note_subscriptions({A})
        other.note_cursor("epoch:1")
    async with opened(path) as state:
        state.note_put(resource(B), covered=True)
        state.note_subscriptions({B})
        state.note_cursor("epoch:2")
        await state.flush()
        state.note_put(resource(C), covered=True)
        await state.clear()
        for table in ("states", "subscriptions", "entries", "covered"):
            assert ask(path, f"SELECT count(*) FROM {table} WHERE identity = 'me'") == [(0,)]
    assert await saved(path) == Saved()
    assert await saved(path, "other") == Saved((resource(A),), frozenset({A}), frozenset({A}), "epoch:1")


async def test_what_is_noted_after_clearing_is_kept(path: Path) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        await state.clear()
        state.note_put(resource(B), covered=True)
    assert (await saved(path)).invocations == (resource(B),)


async def test_nobody_finds_what_belongs_to_another_identity(path: Path) -> None:
    async with opened(path, "ada") as ada, opened(path, "bob") as bob:
        ada.note_put(resource(A, "Ada's"), covered=True)
        ada.note_subscriptions({A})
        ada.note_cursor("epoch:1")
        await ada.flush()
        assert await bob.load() == Saved()
        bob.note_put(resource(A, "Bob's"), covered=True)
        await bob.flush()
        bob.note_removed(ContentKind.RESOURCE, A)
    assert (await saved(path, "ada")).invocations == (resource(A, "Ada's"),)
    assert await saved(path, "bob") == Saved()


async def test_of_two_with_one_identity_the_last_to_write_wins(path: Path) -> None:
    async with opened(path) as one, opened(path) as two:
        for state, name in ((one, "one"), (two, "two"), (one, "one again")):
            await state.load()
            state.note_put(resource(A, name), covered=True)
            state.note_subscriptions({A, f"note://{name}"})
            state.note_cursor(name)
            await state.flush()
            found = await saved(path)
            assert found == Saved((resource(A, name),), frozenset({A}), frozenset({A, f"note://{name}"}), name), (
                f"after {name}"
            )


async def test_what_one_covered_is_not_current_under_the_cursor_of_another(path: Path) -> None:
    async with AsyncExitStack() as stack:
        slow, quick = [await stack.enter_async_context(opened(path)) for _ in range(2)]
        await slow.load()
        await quick.load()
        # The slow one has not heard yet of what the quick one has: that A changed with 2.
        slow.note_put(resource(A, "as of 1"), covered=True)
        slow.note_cursor("epoch:1")
        await slow.flush()
        quick.note_put(resource(B, "as of 3"), covered=True)
        quick.note_cursor("epoch:3")
        await quick.flush()
    # Whoever loads it does not make it so either.
    for found in [await saved(path) for _ in range(2)]:
        assert found.cursor == "epoch:3"
        assert found.covered == {B}
        assert resource(A, "as of 1") in found.invocations


async def test_what_another_loaded_is_its_own_to_keep_current(path: Path) -> None:
    async with opened(path) as older, opened(path) as newer:
        older.note_put(resource(A), covered=True)
        older.note_cursor("epoch:1")
        await older.flush()
        assert (await newer.load()).covered == {A}
        older.note_put(resource(B), covered=True)
        older.note_cursor("epoch:2")
        await older.flush()
        newer.note_cursor("epoch:3")
        await newer.flush()
        assert ask(path, "SELECT key FROM covered JOIN states USING (identity, writer)") == [(A,)]


async def test_the_event_loop_goes_on_while_the_file_is_waited_for(path: Path) -> None:
    async with opened(path) as state, anyio.create_task_group() as tasks:
        await state.load()
        with locked(path):
            tasks.start_soon(state.load)
            state.note_put(resource(A), covered=True)
            tasks.start_soon(state.flush)
            await some_turns()
            assert ask(path, "SELECT count(*) FROM entries") == [(0,)]
    assert (await saved(path)).invocations == (resource(A),)


@pytest.mark.timeout(20)
async def test_a_flush_ends_that_begins_in_any_turn_of_the_loop(path: Path) -> None:
    async with opened(path) as state, asyncio.TaskGroup() as tasks:
        for number in range(20):
            state.note_cursor(f"log:{number}")
            writing = tasks.create_task(state.flush())
            while not writing.done():
                tasks.create_task(state.flush())
                await anyio.lowlevel.checkpoint()
    assert cursor_in(path) == "log:19"


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "waiting"])
async def test_a_flush_that_is_cancelled_loses_nothing(path: Path, begun: bool) -> None:
    async with opened(path) as state:
        await state.load()
        with locked(path):
            before = [] if begun else [asyncio.create_task(state.load())]
            await some_turns()
            state.note_put(resource(A), covered=True)
            first = asyncio.create_task(state.flush())
            await some_turns()
            state.note_put(resource(B), covered=True)
            second = asyncio.create_task(state.flush())
            await some_turns()
            for flush in (first, second):
                flush.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await flush
        await asyncio.gather(*before)
    assert (await saved(path)).invocations == (resource(A), resource(B))


async def test_a_close_that_is_cancelled_still_writes_what_was_noted(path: Path) -> None:
    state = StateFile(path, "me")
    await state.load()
    with anyio.CancelScope() as scope:
        scope.cancel()
        state.note_put(resource(A), covered=True)
        await state.aclose()
    assert ask(path, "SELECT key FROM entries") == [(A,)]
    assert not Path(f"{path}-wal").exists()


async def test_what_is_noted_after_closing_is_not_written(path: Path) -> None:
    state = StateFile(path, "me", delay=0)
    await state.aclose()
    state.note_cursor("epoch:1")
    await state.flush()
    await state.aclose()
    assert not path.exists()


async def test_what_no_text_can_hold_is_not_saved_and_neither_is_what_it_replaced(path: Path) -> None:
    unsayable: list[Any] = [object(), "\ud800", float]
    async with opened(path) as state:
        for n in range(3):
            state.note_put(tool(f"tool {n}"), covered=False)
        await state.flush()
        for n, value in enumerate(unsayable):
            state.note_put(ToolCall(f"tool {n}", {"value": value}, None, success=False, error="no"), covered=False)
        state.note_put(resource("note://\ud800"), covered=True)
        state.note_removed(ContentKind.RESOURCE, "note://\udfff")
        state.note_put(resource(A), covered=True)
    assert (await saved(path)).invocations == (resource(A),)


async def test_a_cursor_that_no_text_can_hold_only_delays_the_rest(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path) as state:
        state.note_put(resource(A), covered=True)
        state.note_cursor("epoch:\ud800")
        await state.flush()
        assert "is not saved for now" in caplog.records[-1].message
        state.note_cursor("epoch:2")
        await state.flush()
    assert await saved(path) == Saved((resource(A),), frozenset({A}), frozenset(), "epoch:2")


async def test_what_cannot_be_read_back_is_left_out_and_counted_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(path) as state:
        for uri in (A, B, C, "note://d"):
            state.note_put(resource(uri), covered=True)
    ask(path, f"UPDATE entries SET content = '{{}}' WHERE key = '{A}'")
    ask(path, f"UPDATE entries SET kind = 'gossip' WHERE key = '{B}'")
    ask(path, f"UPDATE entries SET key = 'note://other' WHERE key = '{C}'")

    async with opened(path) as state:
        found = await state.load()
    assert found.invocations == (resource("note://d"),)
    assert found.covered == {"note://d"}
    assert [record.message for record in caplog.records] == [
        f"3 of 4 entries in the state file {path} cannot be read by this version, and are left out"
    ]
    caplog.clear()
    assert await saved(path) == found
    assert not caplog.records


async def test_only_this_user_may_read_the_file(path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with opened(path) as state:
            await state.load()
            state.note_cursor("epoch:1")
            await state.flush()
            files = sorted(path.parent.iterdir())
            assert [file.name for file in files] == ["agent.db", "agent.db-shm", "agent.db-wal"]
            assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600"] * 3
    finally:
        os.umask(before)

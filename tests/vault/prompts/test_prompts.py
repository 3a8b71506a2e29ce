"""What the prompts say and bring along: computed from the vault, and bounded."""

from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp.shared.exceptions import MCPError
from mcp_types import ContentBlock, EmbeddedResource, TextContent, TextResourceContents

from tests.vault.shelf import BEGINNING, Shelf
from tidings.server.exact_calls import ExactServer
from tidings.server.families import BadAddress
from tidings.vault import prompts
from tidings.vault.view import IndexStatus, VaultView

pytestmark = pytest.mark.anyio

TODAY = date(2026, 1, 31)


class Desk(ExactServer):
    """A server whose library answers at once."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__("desk")
        self.library = self
        self._shelf = shelf

    async def ask(self, question: Callable[[VaultView], Any]) -> Any:
        return question(self._shelf.view())


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


def said(blocks: list[ContentBlock]) -> str:
    assert isinstance(blocks[0], TextContent)
    return blocks[0].text


def facts(blocks: list[ContentBlock]) -> str:
    """All but what to do with it."""
    return said(blocks).rpartition("\n\n")[0]


def brought(blocks: list[ContentBlock]) -> dict[str, str]:
    found = [block.resource for block in blocks if isinstance(block, EmbeddedResource)]
    return {each.uri: each.text for each in found if isinstance(each, TextResourceContents)}


# As a server offers them


async def test_the_prompts_are_listed_with_their_arguments(shelf: Shelf) -> None:
    desk = Desk(shelf)
    prompts.register(desk, desk.library)  # pyright: ignore[reportArgumentType] - it has `ask`

    listed = await desk.list_prompts()

    assert {
        prompt.name: {argument.name: argument.required for argument in prompt.arguments or []} for prompt in listed
    } == snapshot(
        {
            "daily_note": {"date": False},
            "summarise_recent": {"count": False, "since": False},
        }
    )
    for prompt in listed:
        assert prompt.title
        assert prompt.description
        assert "\n" not in prompt.description
        assert all(argument.description for argument in prompt.arguments or [])


async def test_each_prompt_can_be_had(shelf: Shelf) -> None:
    shelf.put({"Plan.md": "# Plan\n#a"})
    desk = Desk(shelf)
    prompts.register(desk, desk.library)  # pyright: ignore[reportArgumentType] - it has `ask`

    for prompt in await desk.list_prompts():
        needed = {argument.name: "Plan" for argument in prompt.arguments or [] if argument.required}
        result = await desk.get_prompt(prompt.name, needed)
        assert result.messages[0].role == "user"
        assert isinstance(result.messages[0].content, TextContent)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("daily_note", {"date": "tomorrow"}, "'tomorrow' is not a date"),
        ("summarise_recent", {"count": "many"}, "count cannot be 'many'. Give a whole number from 1 to 50"),
    ],
)
async def test_a_wrong_argument_is_told_to_who_gave_it(
    shelf: Shelf, name: str, arguments: dict[str, str], told: str
) -> None:
    desk = Desk(shelf)
    prompts.register(desk, desk.library)  # pyright: ignore[reportArgumentType] - it has `ask`

    with pytest.raises(MCPError, match=told):
        await desk.get_prompt(name, arguments)


@pytest.mark.parametrize(
    ("status", "told"),
    [(IndexStatus("indexing", (1, 2)), "still being built"), (IndexStatus("away"), "cannot be reached")],
)
async def test_what_may_lack_something_says_so(shelf: Shelf, status: IndexStatus, told: str) -> None:
    assert told in said(prompts.recent_brief(shelf.view(status), "", ""))


# The daily note


def test_the_plan_of_a_day_brings_its_note_the_last_one_and_what_changed(shelf: Shelf) -> None:
    shelf.put(
        {
            "2026-01-20.md": "- [ ] older",
            "2026-01-29.md": "# Thursday\n- [ ] call  Ann\n- [x] done\n- [ ] pay",
            "2026-01-31.md": "# Today",
            "2026-02-01.md": "- [ ] later",
            "Idea.md": "new",
            "Board.canvas": "{}",
        }
    )

    blocks = prompts.daily_brief(shelf.view(), "today", today=TODAY)

    assert facts(blocks) == snapshot("""\
Help me plan Saturday, 2026-01-31, in my daily note.

It is '2026-01-31.md'.

The last daily note is '2026-01-29.md'.

These changed last:
- Idea.md
- 2026-02-01.md
- 2026-01-20.md\
""")
    assert list(brought(blocks)) == ["vault://note/2026-01-31.md", "vault://note/2026-01-29.md"]


def test_a_day_without_notes_before_it_says_where_its_note_would_be(shelf: Shelf) -> None:
    blocks = prompts.daily_brief(shelf.view(), "2026-02-01", today=TODAY)

    assert "Sunday, 2026-02-01" in said(blocks)
    assert "It does not exist yet; it would be '2026-02-01.md'." in said(blocks)
    assert "There is no earlier daily note." in said(blocks)
    assert len(blocks) == 1


# What is recent


def test_a_summary_brings_the_notes_that_changed_last(shelf: Shelf) -> None:
    shelf.put({"old.md": "old", "Board.canvas": "{}", "new.md": "new"})

    blocks = prompts.recent_brief(shelf.view(), "2", "")

    assert facts(blocks) == snapshot("""\
Summarise what is new in my vault: the notes that changed last, the newest first.

- new.md (2026-01-01T00:03:00.000Z)
- old.md (2026-01-01T00:01:00.000Z)\
""")
    assert brought(blocks) == {"vault://note/new.md": "new", "vault://note/old.md": "old"}
    assert list(brought(prompts.recent_brief(shelf.view(), "1", ""))) == ["vault://note/new.md"]


def test_a_summary_since_a_day_leaves_out_what_is_older(shelf: Shelf) -> None:
    shelf.put({"old.md": "old"})
    day = datetime.fromtimestamp(BEGINNING).astimezone().date()

    assert list(brought(prompts.recent_brief(shelf.view(), "", day.isoformat()))) == ["vault://note/old.md"]
    nothing = prompts.recent_brief(shelf.view(), "", "today", today=date(2026, 2, 1))
    assert said(nothing) == "No note changed since 2026-02-01. Tell me so."


def test_what_a_summary_brings_is_bounded(shelf: Shelf) -> None:
    shelf.put({f"{number:02}.md": "word " * 1000 for number in range(60)})

    blocks = prompts.recent_brief(shelf.view(), "50", "")

    assert len(brought(blocks)) == 50
    assert sum(map(len, brought(blocks).values())) < 45_000
    assert all("more characters: read the resource.]" in text for text in brought(blocks).values())


@pytest.mark.parametrize("count", ["0", "51", "100", "-1", "ten"])
def test_a_count_that_is_none_is_refused(shelf: Shelf, count: str) -> None:
    with pytest.raises(ValueError, match="count cannot be"):
        prompts.recent_brief(shelf.view(), count, "")


def test_a_day_that_is_none_is_refused(shelf: Shelf) -> None:
    with pytest.raises(BadAddress, match="not a date"):
        prompts.recent_brief(shelf.view(), "", "soon")

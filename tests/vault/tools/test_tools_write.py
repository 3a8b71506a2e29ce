"""The tools that change a vault, as an agent uses them."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.vault.agent import ERAS, Agent, at
from tidings.vault.view import IndexStatus

pytestmark = pytest.mark.anyio

PLAN = "---\nstatus: open  # a remark\n---\n# Plan\n\nteh plan\n\n## Tasks\n\n- [ ] call\n\n## End\n\nBlock. ^abc\n"


@pytest.fixture(scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Agent]:
    """At a vault that nobody manages to change."""
    async with at(tmp_path_factory.mktemp("writing"), {"A.md": "a\na\nb\n"}) as agent:
        yield agent


# write


@pytest.mark.parametrize("era", ERAS)
async def test_a_note_is_created_with_its_folders_and_can_be_found_at_once(tmp_path: Path, era: str) -> None:
    async with at(tmp_path, {}, era=era) as agent:
        done = await agent.call("write", path="Projects/New/Plan", content="# Plan\n\nunheard\n")
        assert done["path"] == "Projects/New/Plan.md"
        assert agent.text == f"Created Projects/New/Plan.md (version {done['version']})."
        assert agent.on_disk("Projects/New/Plan.md") == "# Plan\n\nunheard\n"
        assert (await agent.call("search", query="unheard"))["total"] == 1
        assert await agent.version("Plan") == done["version"]


async def test_a_note_that_exists_is_replaced_only_by_who_has_read_it_or_says_so(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "old\n"}) as agent:
        version = await agent.version("A")
        assert version in await agent.refused("write", path="A.md", content="new\n")
        assert agent.on_disk("A.md") == "old\n"
        done = await agent.call("write", path="A.md", content="new\n", if_match=version)
        assert done["version"] == await agent.version("A")
        assert agent.on_disk("A.md") == "new\n"
        await agent.call("write", path="A.md", content="newer\n", overwrite=True)
        assert agent.on_disk("A.md") == "newer\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"content": "mine\n"}),
        ("edit", {"edits": [{"find": "b", "content": "mine"}]}),
        ("append", {"content": "mine"}),
        ("delete", {}),
        ("move", {"to": "B.md"}),
    ],
)
async def test_a_note_that_was_changed_meanwhile_is_a_conflict(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    async with at(tmp_path, {"A.md": "a\nb\n"}) as agent:
        version = await agent.version("A")
        agent.put({"A.md": "theirs\nb\n"})
        said = await agent.refused(tool, path="A.md", if_match=version, **arguments)
        assert version in said
        assert await agent.version("A") in said
        assert agent.on_disk("A.md") == "theirs\nb\n"
        assert "What changed since you read it:\n--- A.md" in said
        assert "-a\n+theirs" in said
        if tool in ("write", "edit", "append"):
            assert "+mine" in said


async def test_what_a_conflict_told_is_enough_to_try_again(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\nb\n"}) as agent:
        version = await agent.version("A")
        agent.put({"A.md": "theirs\nb\n"})
        edits = [{"find": "a\n", "content": "mine\n"}]
        said = await agent.refused("edit", path="A.md", edits=edits, if_match=version)
        assert "Your change does not fit the current text" in said
        again = said.partition("if_match='")[2][:16]
        await agent.call("edit", path="A.md", edits=[{"find": "theirs", "content": "ours"}], if_match=again)
        assert agent.on_disk("A.md") == "ours\nb\n"


async def test_what_is_no_version_is_called_so(agent: Agent) -> None:
    said = await agent.refused("append", path="A.md", content="x", if_match="nonsense")
    assert said.startswith("'nonsense' is not a version")
    assert agent.on_disk("A.md") == "a\na\nb\n"


async def test_a_conflict_shows_what_would_have_been_written_over(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\n"}) as agent:
        version = await agent.version("A")
        agent.put({"A.md": "theirs\n"})
        said = await agent.refused("write", path="A.md", content="mine\n", if_match=version)
    assert "-theirs" in said
    assert "+mine" in said


@pytest.mark.parametrize(
    "path", ["../out.md", "/etc/passwd.md", ".obsidian/x.md", "a\\b.md", "CON.md", "x/../../y.md", "", "a:b.md"]
)
async def test_nothing_is_written_outside_the_vault_or_where_it_cannot_be(agent: Agent, path: str) -> None:
    before = sorted(agent.root.parent.rglob("*"))
    assert await agent.refused("write", path=path, content="x")
    assert sorted(agent.root.parent.rglob("*")) == before


async def test_a_note_that_is_there_in_other_letters_is_the_same(tmp_path: Path) -> None:
    async with at(tmp_path, {"Projects/Plan.md": "a"}) as agent:
        assert "'Projects/Plan.md' already exists" in await agent.refused("write", path="projects/plan", content="b")
        assert (await agent.call("write", path="projects/New", content="b"))["path"] == "Projects/New.md"


# edit


@pytest.mark.parametrize("era", ERAS)
async def test_several_edits_are_made_at_once_and_all_else_stays(tmp_path: Path, era: str) -> None:
    edits = [
        {"find": "teh", "content": "the"},
        {"section": "Tasks", "content": "- [x] call"},
        {"block": "^abc", "content": "A better block."},
        {"property": "status", "value": "done"},
        {"lines": "12", "content": "## The end"},
    ]
    async with at(tmp_path, {"Plan.md": PLAN}, era=era) as agent:
        version = await agent.version("Plan")
        done = await agent.call("edit", path="Plan", edits=edits, if_match=version)
        text = agent.on_disk("Plan.md")
        assert done["version"] == await agent.version("Plan") != version
    assert text == (
        "---\nstatus: done  # a remark\n---\n# Plan\n\nthe plan\n\n## Tasks\n\n- [x] call\n\n## The end\n\n"
        "A better block. ^abc\n"
    )
    assert "-teh plan\n+the plan" in done["diff"]


async def test_if_one_edit_cannot_be_made_none_is(tmp_path: Path) -> None:
    async with at(tmp_path, {"Plan.md": PLAN}) as agent:
        edits = [{"find": "teh", "content": "the"}, {"find": "not there", "content": "x"}]
        said = await agent.refused("edit", path="Plan", edits=edits)
        assert "Edit 2 of 2" in said
        assert agent.on_disk("Plan.md") == PLAN


async def test_a_property_is_removed_by_null_and_may_be_a_list(tmp_path: Path) -> None:
    async with at(tmp_path, {"Plan.md": "---\na: 1\nb: 2\n---\nx\n"}) as agent:
        edits = [{"property": "a", "value": None}, {"property": "tags", "value": ["x", "y"]}]
        await agent.call("edit", path="Plan", edits=edits)
        assert (await agent.call("info", path="Plan"))["properties"] == {"b": 2, "tags": ["x", "y"]}


async def test_lines_are_removed_by_an_empty_text_and_all_of_a_text_may_be_replaced(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\nb\na\nc\n"}) as agent:
        await agent.call(
            "edit", path="A", edits=[{"lines": "2", "content": ""}, {"find": "a", "content": "x", "all": True}]
        )
        assert agent.on_disk("A.md") == "x\nx\nc\n"


async def test_an_edit_that_changes_nothing_says_so(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\n"}) as agent:
        done = await agent.call("edit", path="A", edits=[{"find": "a", "content": "a"}])
        assert done["done"] == "Nothing changed: A.md was like that already."
        assert done["version"] == await agent.version("A")


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([], "There is nothing to do"),
        ([{}], "give exactly one of find, section, block, lines, property; it has none"),
        ([{"find": "a", "lines": "1", "content": ""}], "it has find and lines"),
        ([{"find": "a"}], "find takes content"),
        ([{"find": "a", "content": "", "value": 1}], "find takes content"),
        ([{"property": "a"}], "a property takes a value"),
        ([{"property": "a", "content": "x"}], "a property takes a value"),
        ([{"lines": "3-", "content": "x"}], "'3-' is not a range of lines"),
        ([{"lines": "9", "content": "x"}], "There is no line 9"),
        ([{"find": "zzz", "content": "x"}], "does not occur"),
        ([{"find": "a", "content": "x"}], "occurs 2 times"),
        ([{"section": "Nope", "content": "x"}], "There is no heading 'Nope'"),
        ([{"block": "nope", "content": "x"}], "There is no block 'nope'"),
        ([{"replace": "a", "content": "x"}], "replace"),
        ([{"find": "b", "content": ""}, {"find": "c"}], "Edit 2: find takes content"),
    ],
)
async def test_an_edit_that_is_not_clear_is_refused(agent: Agent, edits: list[dict[str, Any]], said: str) -> None:
    assert said in await agent.refused("edit", path="A", edits=edits)
    assert agent.on_disk("A.md") == "a\na\nb\n"


async def test_a_note_that_could_be_another_is_not_changed(tmp_path: Path) -> None:
    async with at(tmp_path, {"A/Plan.md": "a", "B/Plan.md": "a"}) as agent:
        said = await agent.refused("edit", path="Plan", edits=[{"find": "a", "content": "b"}])
        assert "could be one of several: 'A/Plan.md', 'B/Plan.md'. Give the whole path." in said
        await agent.call("edit", path="B/Plan", edits=[{"find": "a", "content": "b"}])
        assert (agent.on_disk("A/Plan.md"), agent.on_disk("B/Plan.md")) == ("a", "b")


async def test_a_missing_note_is_refused_with_the_nearest_names(tmp_path: Path) -> None:
    async with at(tmp_path, {"Projects/Plan.md": "a"}) as agent:
        said = await agent.refused("edit", path="Plam", edits=[{"find": "a", "content": "b"}])
        assert said == "There is no file 'Plam'. Did you mean 'Projects/Plan.md'?"


# append


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({}, "---\nk: v\n---\n# A\n\n## Log\n\n- one\n\n## End\n\nlast\nnew\n"),
        ({"where": "start"}, "---\nk: v\n---\nnew\n# A\n\n## Log\n\n- one\n\n## End\n\nlast\n"),
        ({"where": "section", "section": "Log"}, "---\nk: v\n---\n# A\n\n## Log\n\n- one\nnew\n\n## End\n\nlast\n"),
        ({"section": "Log"}, "---\nk: v\n---\n# A\n\n## Log\n\n- one\nnew\n\n## End\n\nlast\n"),
    ],
)
async def test_text_is_added_where_it_is_asked_for(tmp_path: Path, where: dict[str, str], text: str) -> None:
    note = "---\nk: v\n---\n# A\n\n## Log\n\n- one\n\n## End\n\nlast\n"
    async with at(tmp_path, {"A.md": note}) as agent:
        done = await agent.call("append", path="A", content="new", **where)
        assert agent.text == f"Added to A.md (version {done['version']})."
        assert agent.on_disk("A.md") == text


async def test_what_is_missing_is_created_only_if_that_is_asked_for(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\n"}) as agent:
        assert "Or set create=true." in await agent.refused("append", path="Log", content="x")
        done = await agent.call("append", path="Log", content="x", create=True)
        assert (done["path"], agent.on_disk("Log.md")) == ("Log.md", "x\n")
        assert "There is no heading" in await agent.refused("append", path="A", section="New", content="x")
        await agent.call("append", path="A", section="New", content="x", create=True)
        assert "New" in [heading["text"] for heading in (await agent.call("info", path="A"))["headings"]]


async def test_a_place_that_is_not_clear_is_refused(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a\n"}) as agent:
        assert "Which section?" in await agent.refused("append", path="A", content="x", where="section")
        said = await agent.refused("append", path="A", content="x", where="start", section="B")
        assert "Give a section, or where='start', not both." in said


# move


async def test_what_a_move_would_change_can_be_asked_first(tmp_path: Path) -> None:
    files = {"A.md": "[b](./B.md)\n", "B.md": "b\n", "C.md": "[[A]] and [x](A.md)\n", "New/B.md": "other\n"}
    async with at(tmp_path, files) as agent:
        version = await agent.version("A")
        asked = await agent.call("move", path="A", to="New/Z", if_match=version, dry_run=True)
        assert asked["path"] == "A.md"
        assert asked["version"] == version
        assert agent.text == (
            "Would move A.md to New/Z.md. Links would be updated in 2 files. Nothing was changed.\nA.md\nC.md"
        )
        assert "already exists" in await agent.refused("move", path="A", to="New/B", dry_run=True)
        assert "has changed" in await agent.refused("move", path="A", to="Z", if_match="0" * 16, dry_run=True)
        assert "no version" in await agent.refused("move", path="New", to="Z", if_match="0" * 16, dry_run=True)
        assert {path: agent.on_disk(path) for path in files} == files
        assert not (agent.root / "New/Z.md").exists()
        assert "Would move New to Old." in (await agent.call("move", path="New", to="Old", dry_run=True))["done"]
        done = await agent.call("move", path="A", to="New/Z")
        assert len(done["changed"]) == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_move_updates_every_link(tmp_path: Path, era: str) -> None:
    files = {
        "Plan.md": "# Plan\n",
        "A.md": "[[Plan]] and [[Plan#Tasks|tasks]] and ![[Plan]]\n",
        "Sub/B.md": "[x](../Plan.md)\n",
        "C.md": "no link\n",
    }
    async with at(tmp_path, files, era=era) as agent:
        version = await agent.version("Plan")
        done = await agent.call("move", path="Plan", to="Archive/Old plan")
        assert done["path"] == "Archive/Old plan.md"
        assert done["version"] == version
        assert done["changed"] == ["A.md", "Sub/B.md"]
        assert agent.text == "Moved Plan.md to Archive/Old plan.md. Links were updated in 2 files."
        assert agent.on_disk("A.md") == "[[Old plan]] and [[Old plan#Tasks|tasks]] and ![[Old plan]]\n"
        assert agent.on_disk("Sub/B.md") == "[x](../Archive/Old%20plan.md)\n"
        assert agent.on_disk("C.md") == "no link\n"
        assert (await agent.call("links", direction="broken"))["total"] == 0


@pytest.mark.parametrize(
    ("path", "to", "place"),
    [
        ("Plan", "Archive/", "Archive/Plan.md"),
        ("Plan", "Folder", "Folder/Plan.md"),
        ("Plan", "plan.md", "plan.md"),
        ("Folder", "Other", "Other/In.md"),
        ("Folder/", "New/Place/", "New/Place/Folder/In.md"),
        ("pic.png", "images/photo", "images/photo.png"),
        ("Plan", "v1.2", "v1.2.md"),
    ],
)
async def test_things_move_to_where_people_mean(tmp_path: Path, path: str, to: str, place: str) -> None:
    async with at(tmp_path, {"Plan.md": "p", "Folder/In.md": "i", "pic.png": b"\0"}) as agent:
        await agent.call("move", path=path, to=to)
        files = {file.relative_to(agent.root).as_posix() for file in agent.root.rglob("*") if file.is_file()}
        assert place in files
        assert len(files) == 3


async def test_a_move_onto_something_or_out_of_the_vault_is_refused(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a", "B.md": "b"}) as agent:
        assert "already exists" in await agent.refused("move", path="A", to="B")
        assert await agent.refused("move", path="A", to="../A.md")
        assert "There is no file 'Zzz'" in await agent.refused("move", path="Zzz", to="B2")
        assert (agent.on_disk("A.md"), agent.on_disk("B.md")) == ("a", "b")


async def test_links_that_could_not_be_updated_are_named(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a", "Odd.md": b"[[A]] caf\xe9\n"}) as agent:
        done = await agent.call("move", path="A", to="B")
        assert done["warnings"][0].startswith("Not changed: Odd.md. ")
        assert done["warnings"][0] in agent.text


async def test_long_work_tells_of_its_progress(tmp_path: Path) -> None:
    told: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert message
        told.append((progress, total))

    files = {f"N{number}.md": "#old [[A]]\n" for number in range(150)}
    async with at(tmp_path, {"A.md": "a", **files}) as agent:
        await agent.client.call_tool("rename_tag", {"tag": "old", "to": "new"}, progress_callback=on_progress)
        assert told == [(0, 150), (100, 150)]
        await agent.client.call_tool("move", {"path": "A", "to": "B"}, progress_callback=on_progress)
        assert told[2:] == [(0, 150)]


async def test_who_changes_something_everywhere_waits_for_the_index(tmp_path: Path) -> None:
    told: list[str | None] = []

    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        told.append(message)

    async with at(tmp_path, {"A.md": "#old"}) as agent:
        agent.server.library._indexer.status = IndexStatus("indexing")
        await agent.client.call_tool("rename_tag", {"tag": "old", "to": "new"}, progress_callback=on_progress)
        assert told[0] == "Waiting for the index to be complete"
        assert agent.on_disk("A.md") == "#new"


# delete


async def test_what_is_deleted_goes_to_the_trash(tmp_path: Path) -> None:
    async with at(tmp_path, {"Sub/A.md": "a", "B.md": "[[A]]"}) as agent:
        done = await agent.call("delete", path="A")
        assert done["path"] == "Sub/A.md"
        assert "1 link to it leads nowhere now." in agent.text
        assert agent.on_disk(done["trash"]) == "a"
        assert not (agent.root / "Sub/A.md").exists()
        assert (await agent.call("search", query="file:A"))["total"] == 0


async def test_a_folder_is_deleted_only_if_it_is_empty_or_that_is_meant(tmp_path: Path) -> None:
    async with at(tmp_path, {"Sub/A.md": "a", "Sub/B.md": "b"}) as agent:
        assert "recursive=true" in await agent.refused("delete", path="Sub")
        await agent.call("delete", path="Sub", recursive=True)
        assert not (agent.root / "Sub").exists()
        assert (await agent.call("info"))["notes"] == 0
        assert "There is no file 'Sub'" in await agent.refused("delete", path="Sub")


# rename_tag


@pytest.mark.parametrize("era", ERAS)
async def test_a_tag_is_renamed_everywhere_with_those_below_it(tmp_path: Path, era: str) -> None:
    files = {"A.md": "---\ntags: [todo, x]\n---\n#todo/now `#todo`\n", "B.md": "#Todo\n", "C.md": "#todone\n"}
    async with at(tmp_path, files, era=era) as agent:
        done = await agent.call("rename_tag", tag="#todo", to="task")
        assert sorted(done["changed"]) == ["A.md", "B.md"]
        assert agent.text == "Renamed #todo to #task: 3 tags in 2 files."
        assert agent.on_disk("A.md") == "---\ntags: [task, x]\n---\n#task/now `#todo`\n"
        assert agent.on_disk("B.md") == "#task\n"
        assert agent.on_disk("C.md") == "#todone\n"


async def test_what_is_no_tag_or_nobodys_is_refused(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "#todo\n"}) as agent:
        assert "is not a tag" in await agent.refused("rename_tag", tag="todo", to="two words")
        assert "Did you mean #todo?" in await agent.refused("rename_tag", tag="tdo", to="task")
        assert agent.on_disk("A.md") == "#todo\n"


async def test_what_renaming_a_tag_would_change_can_be_asked_first(tmp_path: Path) -> None:
    files = {
        "A.md": "#todo #todo/now\n",
        "B.md": "---\ntags: [todo]\n---\n",
        "C.md": "#other\n",
        "D.md": b"#todo \xff\n",
    }
    async with at(tmp_path, files) as agent:
        asked = await agent.call("rename_tag", tag="todo", to="task", dry_run=True)
        assert asked["done"] == "Would rename #todo to #task: 3 tags in 2 files. Nothing was changed."
        assert asked["changed"] == ["A.md", "B.md"]
        assert "D.md" in asked["warnings"][0]
        assert agent.text.startswith(asked["done"] + "\nA.md\nB.md\n")
        assert agent.on_disk("A.md") == files["A.md"]
        assert "is not a tag" in await agent.refused("rename_tag", tag="todo", to="two words", dry_run=True)
        done = await agent.call("rename_tag", tag="todo", to="task")
        assert (done["changed"], agent.on_disk("A.md")) == (["A.md", "B.md"], "#task #task/now\n")


async def test_a_tag_that_no_note_allows_to_be_renamed_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with at(tmp_path, {"D.md": b"#todo \xff\n"}) as agent:
        said = await agent.refused("rename_tag", tag="todo", to="task")
    assert said.startswith("No note was changed. D.md: ")
    assert "not valid UTF-8" in said


async def test_a_tag_is_renamed_in_the_notes_that_were_looked_at_or_not_at_all(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "#todo\n", "B.md": "#todo\n"}) as agent:
        first = (await agent.call("rename_tag", tag="todo", to="task", dry_run=True))["version"]
        await agent.call("append", path="B.md", content="more")
        said = await agent.refused("rename_tag", tag="#todo", to="task", if_match=first)
        assert "'#todo' has changed" in said
        assert agent.on_disk("A.md") == "#todo\n"
        version = (await agent.call("rename_tag", tag="todo", to="task", dry_run=True))["version"]
        assert f"if_match='{version}'" in said
        done = await agent.call("rename_tag", tag="todo", to="task", if_match=version)
        assert (done["changed"], "version" in done) == (["A.md", "B.md"], False)


# daily_note


async def test_a_daily_note_is_added_to_as_it_was_read_or_not_at_all(tmp_path: Path) -> None:
    async with at(tmp_path, {"2026-01-31.md": "one\n"}) as agent:
        (note,) = (await agent.call("daily_note", date="2026-01-31"))["notes"]
        (note,) = (await agent.call("daily_note", date="2026-01-31", append="two", if_match=note["version"]))["notes"]
        assert note["text"] == "one\ntwo\n"
        agent.put({"2026-01-31.md": "another\n"})
        said = await agent.refused("daily_note", date="2026-01-31", append="three", if_match=note["version"])
        assert "has changed" in said
        assert agent.on_disk("2026-01-31.md") == "another\n"
        said = await agent.refused("daily_note", date="2026-02-01", append="x", if_match=note["version"])
        assert "does not exist" in said


async def test_a_daily_note_is_created_from_the_apps_template(tmp_path: Path) -> None:
    files = {
        ".obsidian/daily-notes.json": '{"folder": "WriteJournal", "format": "YYYY-MM-DD", "template": "Templates/Day"}',
        "Templates/Day.md": "# {{title}}\n\n{{date:dddd}}\n",
    }
    async with at(tmp_path, files) as agent:
        made = await agent.call("daily_note", date="2026-01-31", create=True)
        assert made["notes"][0]["path"] == "WriteJournal/2026-01-31.md"
        assert agent.on_disk("WriteJournal/2026-01-31.md") == "# 2026-01-31\n\nSaturday\n"
        again = await agent.call("daily_note", date="2026-01-31", create=True)
        assert again == made


async def test_text_is_added_to_a_daily_note_which_is_created_if_need_be(tmp_path: Path) -> None:
    async with at(tmp_path, {}) as agent:
        await agent.call("daily_note", date="2026-01-31", append="- one")
        assert agent.on_disk("2026-01-31.md") == "- one\n"
        made = await agent.call("daily_note", date="2026-01-31", append="- two")
        assert made["notes"][0]["text"] == "- one\n- two\n"


async def test_a_template_that_is_missing_is_said_and_the_note_made_without(tmp_path: Path) -> None:
    async with at(tmp_path, {".obsidian/daily-notes.json": '{"template": "Nope"}'}) as agent:
        made = await agent.call("daily_note", date="2026-01-31", create=True)
        assert made["notes"][0]["text"] == ""
        assert "\n\nThe template of daily notes was left out: " in agent.text


# The disk


async def test_what_the_disk_does_not_allow_is_said_without_a_traceback(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "a", "Sub.md/B.md": "b"}) as agent:
        assert "is a file. Name a folder." in await agent.refused("write", path="A.md/B.md", content="x")
        assert "is a folder. Name a file in it." in await agent.refused("write", path="Sub.md", content="x")


async def test_a_text_that_is_too_large_is_refused(agent: Agent) -> None:
    assert "10,000,000" in await agent.refused("write", path="Big", content="x" * 10_000_001)

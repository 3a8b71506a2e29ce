"""The tools that look at a vault, as an agent uses them."""

import json
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.vault.agent import ERAS, Agent, at

pytestmark = pytest.mark.anyio

FILES = {
    "Home.md": "# Home\n\nSee [[Plan]] and [[Nowhere]].\n",
    "Projects/Plan.md": (
        "---\nstatus: done\ntags: [work/now]\naliases: [The plan]\n---\n"
        "# Plan\n\nBudget for next year. #idea\n\n## Tasks\n\n- [ ] call Ann\n- [x] pay\n\n"
        "## Notes\n\nA block. ^abc\n\nBack [[Home]].\n"
    ),
    "Projects/Deep/Other.md": "An apple and a budget.\n",
    "Lonely.md": "Nobody knows me.\n",
    "picture.png": b"\x89PNG\x00\x01",
}
TODAY = datetime.now().astimezone().date()


@pytest.fixture(scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Agent]:
    """At a vault that nobody changes."""
    async with at(tmp_path_factory.mktemp("reading"), FILES) as agent:
        yield agent


# search


@pytest.mark.parametrize("era", ERAS)
async def test_a_search_gives_files_with_the_lines_that_match(tmp_path: Path, era: str) -> None:
    async with at(tmp_path, FILES, era=era) as agent:
        found = await agent.call("search", query="budget", sort="path")
    assert found == {
        "total": 2,
        "results": [
            {"path": "Projects/Deep/Other.md", "lines": [{"line": 1, "text": "An apple and a budget."}]},
            {"path": "Projects/Plan.md", "lines": [{"line": 8, "text": "Budget for next year. #idea"}]},
        ],
    }
    assert agent.text.splitlines() == [
        "2 files for budget",
        "Projects/Deep/Other.md",
        "  1: An apple and a budget.",
        "Projects/Plan.md",
        "  8: Budget for next year. #idea",
    ]


async def test_a_search_goes_on_where_it_is_said_to(agent: Agent) -> None:
    first = await agent.call("search", query="budget", sort="path", limit=1)
    assert "More with offset=1." in agent.text
    rest = await agent.call("search", query="budget", sort="path", limit=1, offset=first["next_offset"])
    assert [hit["path"] for hit in first["results"] + rest["results"]] == ["Projects/Deep/Other.md", "Projects/Plan.md"]
    assert "next_offset" not in rest


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("tag:#work", "Projects/Plan.md"),
        ("[status:done]", "Projects/Plan.md"),
        ("task-todo:call", "Projects/Plan.md"),
        ("path:Deep", "Projects/Deep/Other.md"),
        ("/app\\w+/", "Projects/Deep/Other.md"),
        ('"nobody knows"', "Lonely.md"),
        ("kind:attachment", "picture.png"),
    ],
)
async def test_a_search_takes_obsidians_syntax(agent: Agent, query: str, path: str) -> None:
    found = await agent.call("search", query=query)
    assert [hit["path"] for hit in found["results"]] == [path]


async def test_more_lines_of_a_file_than_are_shown_are_counted(tmp_path: Path) -> None:
    async with at(tmp_path, {"A.md": "apple\n" * 10}) as agent:
        found = await agent.call("search", query="apple")
        assert len(found["results"][0]["lines"]) == 3
        assert "and 7 more lines" in agent.text


@pytest.mark.parametrize("query", ["", '"open', "nothing:here)", "/(/"])
async def test_a_query_that_cannot_be_read_is_refused_with_the_cure(agent: Agent, query: str) -> None:
    assert len(await agent.refused("search", query=query)) > 20
    assert (await agent.call("search", query="budget"))["total"] == 2


async def test_what_the_app_hides_from_search_is_not_found(tmp_path: Path) -> None:
    settings = {".obsidian/app.json": '{"userIgnoreFilters": ["Projects/"]}'}
    async with at(tmp_path, FILES | settings) as agent:
        assert (await agent.call("search", query="budget"))["total"] == 0
        assert (await agent.call("read", paths=["Projects/Plan.md"]))["notes"]


# read


@pytest.mark.parametrize("era", ERAS)
async def test_a_note_is_read_whole_with_its_version(tmp_path: Path, era: str) -> None:
    async with at(tmp_path, FILES, era=era) as agent:
        (note,) = (await agent.call("read", paths=["Projects/Plan.md"]))["notes"]
        assert note["text"] == FILES["Projects/Plan.md"]
        assert (note["lines"], note["total_lines"]) == ("1-19", 19)
        assert agent.text.startswith(
            f"=== Projects/Plan.md (version {note['version']}, 19 lines) ===\n\n---\nstatus: done"
        )


@pytest.mark.parametrize("path", ["Plan", "projects/plan", "Plan.md", "Projects/Plan"])
async def test_a_note_is_found_as_people_write_it(agent: Agent, path: str) -> None:
    assert (await agent.call("read", paths=[path]))["notes"][0]["path"] == "Projects/Plan.md"


@pytest.mark.parametrize("arguments", [{"paths": "Lonely"}, {"path": "Lonely"}, {"path": ["Lonely"]}])
async def test_one_path_may_be_given_in_the_ways_that_agents_do(agent: Agent, arguments: dict[str, object]) -> None:
    assert (await agent.call("read", **arguments))["notes"][0]["path"] == "Lonely.md"


@pytest.mark.parametrize(
    ("chosen", "text", "lines"),
    [
        ({"section": "Tasks"}, "## Tasks\n\n- [ ] call Ann\n- [x] pay\n\n", "10-14"),
        ({"section": "Plan#Tasks"}, "## Tasks\n\n- [ ] call Ann\n- [x] pay\n\n", "10-14"),
        ({"block": "^abc"}, "A block. ^abc\n", "17"),
        ({"lines": "12-13"}, "- [ ] call Ann\n- [x] pay\n", "12-13"),
    ],
)
async def test_a_part_of_a_note_is_read(agent: Agent, chosen: dict[str, str], text: str, lines: str) -> None:
    (note,) = (await agent.call("read", paths=["Plan"], **chosen))["notes"]
    assert (note["text"], note["lines"]) == (text, lines)
    assert f"lines {lines} of 19" in agent.text


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"section": "Taks"}, "There is no heading 'Taks'"),
        ({"block": "nope"}, "There is no block"),
        ({"lines": "99"}, "There is no line 99: the note has 19."),
        ({"lines": "x"}, "not a range of lines"),
        ({"section": "Tasks", "lines": "1"}, "Give only one of section, block and lines."),
    ],
)
async def test_a_part_that_is_not_there_is_refused(agent: Agent, chosen: dict[str, str], said: str) -> None:
    assert said in await agent.refused("read", paths=["Plan"], **chosen)


async def test_what_does_not_fit_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    async with at(tmp_path, {"Long.md": "12345678\n" * 100}) as agent:
        (note,) = (await agent.call("read", paths=["Long"], max_tokens=25))["notes"]
        assert note["lines"] == "1-11"
        assert note["left_out"] == "Lines 12-100 are left out, about 201 tokens. Ask with lines='12-'."
        assert agent.text.endswith(note["left_out"])
        (rest,) = (await agent.call("read", paths=["Long"], lines="12-"))["notes"]
    assert note["text"] + rest["text"] == "12345678\n" * 100


async def test_each_text_is_sent_once(tmp_path: Path) -> None:
    text = "A line of some length.\n" * 500
    async with at(tmp_path, {"A.md": text, "B.md": "b\n"}) as agent:
        for tool, arguments in (("read", {"paths": ["A", "B"]}), ("daily_note", {"append": text})):
            result = (await agent.client.call_tool(tool, arguments)).model_dump_json(by_alias=True)
            assert len(result) < 1.1 * len(json.dumps(text)), tool
            assert "A line of some length." in result


async def test_several_notes_share_the_room(tmp_path: Path) -> None:
    files = {"A.md": "a\n" * 20, "B.md": "b\n" * 20, "C.md": "c\n"}
    async with at(tmp_path, files) as agent:
        got = await agent.call("read", paths=["A", "B", "C"], max_tokens=15)
    assert [(note["path"], note["lines"]) for note in got["notes"]] == [("A.md", "1-20"), ("B.md", "1-10")]
    assert agent.text.endswith("\n\nNot read, for lack of room: C. Ask for them again, or raise max_tokens.")


async def test_one_missing_note_does_not_keep_the_others_back(agent: Agent) -> None:
    got = await agent.call("read", paths=["Lonely", "Plam", "../secret"])
    assert [note["path"] for note in got["notes"]] == ["Lonely.md"]
    missing, outside = agent.text.split("\n")[-3::2]
    assert missing == "Plam: There is no file 'Plam'. Did you mean 'Projects/Plan.md'?"
    assert outside.startswith("../secret: ")


async def test_if_no_note_can_be_read_all_reasons_are_said(agent: Agent) -> None:
    said = await agent.refused("read", paths=["Plam", "Zzzzz"])
    assert "Did you mean 'Projects/Plan.md'?" in said
    assert "Zzzzz: There is no file 'Zzzzz'. Find it with `search` or `structure`." in said
    assert "at least one note" in await agent.refused("read", paths=[])
    assert "The path is empty" in await agent.refused("read", paths=[" "])


async def test_a_name_that_several_notes_have_is_read_and_said_so(tmp_path: Path) -> None:
    async with at(tmp_path, {"A/Plan.md": "a", "B/Sub/Plan.md": "b"}) as agent:
        (note,) = (await agent.call("read", paths=["Plan"]))["notes"]
    assert (note["path"], note["note"]) == ("A/Plan.md", "'Plan' could also be 'B/Sub/Plan.md'.")


async def test_a_note_that_the_index_does_not_know_yet_is_read_all_the_same(tmp_path: Path) -> None:
    async with at(tmp_path, FILES) as agent:
        agent.put({"New.md": "just now\n"})
        assert (await agent.call("read", paths=["New.md"]))["notes"][0]["text"] == "just now\n"


async def test_a_file_that_is_no_text_is_pointed_at_as_a_resource(agent: Agent) -> None:
    assert "vault://attachment/picture.png" in await agent.refused("read", paths=["picture.png"])


async def test_bytes_that_are_no_text_are_shown_as_such(tmp_path: Path) -> None:
    async with at(tmp_path, {"Odd.md": b"caf\xe9\n"}) as agent:
        (note,) = (await agent.call("read", paths=["Odd"]))["notes"]
    assert note["text"] == "caf\ufffd\n"
    assert "What could not be read is shown as \ufffd" in note["note"]


async def test_an_empty_note_is_read(tmp_path: Path) -> None:
    async with at(tmp_path, {"Empty.md": ""}) as agent:
        (note,) = (await agent.call("read", paths=["Empty"]))["notes"]
    assert (note["text"], note["lines"], note["total_lines"]) == ("", "0", 0)


async def test_the_last_line_alone_is_not_taken_for_the_whole_note(agent: Agent) -> None:
    (note,) = (await agent.call("read", paths=["Plan"], lines="19"))["notes"]
    assert note["text"] == "Back [[Home]].\n"
    assert "lines 19 of 19" in agent.text


# links


async def test_links_lead_back_and_out(agent: Agent) -> None:
    back = await agent.call("links", direction="back", path="Home")
    assert (back["total"], back["links"]) == (
        1,
        [{"path": "Projects/Plan.md", "line": 19, "text": "Back [[Home]].", "link": "Home", "target": "Home.md"}],
    )
    assert agent.text == "1 link to Home.md\nProjects/Plan.md:19: Home → Home.md: Back [[Home]]."
    out = await agent.call("links", direction="out", path="Home")
    assert [link.get("target") for link in out["links"]] == ["Projects/Plan.md", None]
    assert "Home.md:3: Nowhere → nowhere: See [[Plan]] and [[Nowhere]]." in agent.text


async def test_links_that_lead_nowhere_are_listed_for_one_note_or_all(tmp_path: Path) -> None:
    async with at(tmp_path, FILES | {"More.md": "[[Missing too]]"}) as agent:
        every = await agent.call("links", direction="broken")
        assert {link["path"] for link in every["links"]} == {"Home.md", "More.md"}
        one = await agent.call("links", direction="broken", path="Home")
        assert [link["path"] for link in one["links"]] == ["Home.md"]


async def test_notes_without_links_are_listed(agent: Agent) -> None:
    found = await agent.call("links", direction="orphans", limit=1)
    assert (found["total"], found["notes"], found["next_offset"]) == (2, ["Lonely.md"], 1)


async def test_the_way_between_two_notes_is_shown(agent: Agent) -> None:
    way = await agent.call("links", direction="path", path="Home", to="Plan")
    assert (way["notes"], agent.text) == (["Home.md", "Projects/Plan.md"], "Home.md → Projects/Plan.md")
    way = await agent.call("links", direction="path", path="Home", to="Lonely")
    assert way["notes"] == []
    assert agent.text == "No links lead from Home.md to Lonely.md, in either direction."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"direction": "back"}, "The path is empty"),
        ({"direction": "path", "path": "Home"}, "`to` is empty"),
        ({"direction": "out", "path": "Plam"}, "Did you mean 'Projects/Plan.md'?"),
        ({"direction": "sideways"}, "direction"),
    ],
)
async def test_links_of_what_is_not_named_are_refused(agent: Agent, arguments: dict[str, str], said: str) -> None:
    assert said in await agent.refused("links", **arguments)


# tags


async def test_tags_are_listed_with_how_many_notes_have_them(tmp_path: Path) -> None:
    async with at(tmp_path, FILES | {"T.md": "#idea #idea/bright"}) as agent:
        found = await agent.call("tags")
        assert found["tags"][0] == {"tag": "idea", "count": 2}
        assert agent.text.startswith("4 tags\n#idea (2)\n")
        found = await agent.call("tags", prefix="#work")
        assert [tag["tag"] for tag in found["tags"]] == ["work", "work/now"]
        found = await agent.call("tags", limit=1)
        assert (found["total"], found["next_offset"]) == (4, 1)


async def test_the_notes_of_a_tag_are_listed_with_those_below_it(agent: Agent) -> None:
    found = await agent.call("tags", tag="#Work")
    assert (found["total"], found["notes"]) == (1, ["Projects/Plan.md"])
    assert agent.text == "1 note with #work\nProjects/Plan.md"


async def test_a_tag_that_no_note_has_is_refused_with_the_nearest(agent: Agent) -> None:
    assert await agent.refused("tags", tag="#idae") == "No note has the tag #idae. Did you mean #idea?"
    assert "List all of them with `tags`." in await agent.refused("tags", tag="zzzzzz")


# recent, structure, info


async def test_what_was_changed_last_comes_first(tmp_path: Path) -> None:
    async with at(tmp_path, FILES) as agent:
        await agent.call("append", path="Lonely", content="hello")
        found = await agent.call("recent", limit=1)
        assert [file["path"] for file in found["files"]] == ["Lonely.md"]
        assert found["next_offset"] == 1
        assert "Lonely.md" in agent.text
        assert len((await agent.call("recent"))["files"]) == 4


async def test_the_tree_of_folders_is_shown_with_the_files_of_its_top(agent: Agent) -> None:
    found = await agent.call("structure")
    assert [folder["path"] for folder in found["folders"]] == ["Projects", "Projects/Deep"]
    assert found["files"] == ["Home.md", "Lonely.md", "picture.png"]
    assert "Projects/ (2 notes)\n  Deep/ (1 note)" in agent.text
    found = await agent.call("structure", folder="projects", depth=1)
    assert (found["folder"], found["files"]) == ("Projects", ["Plan.md"])


async def test_what_is_left_out_of_a_large_folder_is_said(agent: Agent) -> None:
    found = await agent.call("structure", limit=1)
    assert (len(found["files"]), found["note"].split()[0]) == (1, "3")


async def test_a_folder_that_is_not_there_is_refused_with_the_nearest(agent: Agent) -> None:
    said = await agent.refused("structure", folder="Projetcs")
    assert said == "There is no folder 'Projetcs'. Did you mean 'Projects' or 'Projects/Deep'?"
    assert "Leave it out" in await agent.refused("structure", folder="zzzzzz")


async def test_the_facts_of_a_note_are_its_outline_and_more(agent: Agent) -> None:
    facts = await agent.call("info", path="Plan")
    assert facts["version"] == await agent.version("Plan")
    assert facts["properties"]["status"] == "done"
    assert facts["tags"] == ["work/now", "idea"]
    assert facts["aliases"] == ["The plan"]
    assert [(heading["level"], heading["text"]) for heading in facts["headings"]] == [
        (1, "Plan"),
        (2, "Tasks"),
        (2, "Notes"),
    ]
    assert facts["blocks"] == [{"id": "abc", "line": 17}]
    assert (facts["tasks"], facts["links"]) == ({"open": 1, "done": 1}, {"out": 1, "back": 1})
    await agent.call("info", path="Plan")
    assert "\n  ## Tasks (line 10)" in agent.text
    assert "blocks: ^abc (line 17)" in agent.text
    assert (await agent.call("info", path="picture.png"))["kind"] == "attachment"


async def test_the_facts_of_the_vault_are_how_much_there_is(agent: Agent) -> None:
    facts = await agent.call("info")
    assert (facts["notes"], facts["attachments"], facts["properties"]["status"]) == (4, 1, 1)
    assert facts["index"] in ("watching", "polling")
    assert "notes: 4" in agent.text


async def test_the_facts_of_what_is_not_there_are_refused(agent: Agent) -> None:
    assert "There is no file 'nope'" in await agent.refused("info", path="nope")


# daily_note, where nothing is written


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_daily_note_is_read_where_the_apps_settings_have_it(tmp_path: Path, read_only: bool) -> None:
    settings = '{"folder": "WriteJournal", "format": "YYYY/MM-DD"}'
    yesterday = TODAY - timedelta(days=1)
    files = {".obsidian/daily-notes.json": settings, f"WriteJournal/{TODAY:%Y/%m-%d}.md": "today\n"}
    files[f"WriteJournal/{yesterday:%Y/%m-%d}.md"] = "before\n"
    async with at(tmp_path, files, read_only=read_only) as agent:
        assert (await agent.call("daily_note"))["notes"][0]["text"] == "today\n"
        assert (await agent.call("daily_note", date="yesterday"))["notes"][0]["text"] == "before\n"
        assert (await agent.call("daily_note", date=str(TODAY)))["notes"][0]["text"] == "today\n"


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_daily_note_that_is_not_there_is_refused_with_where_it_would_be(
    tmp_path: Path, read_only: bool
) -> None:
    async with at(tmp_path, {}, read_only=read_only) as agent:
        said = await agent.refused("daily_note", date="2026-01-31")
    assert said.startswith("There is no daily note of 2026-01-31. It would be '2026-01-31.md'.")
    assert ("create=true" in said) is not read_only


@pytest.mark.parametrize("day", ["31.1.2026", "2026-02-30", "someday"])
async def test_what_is_no_date_is_refused(agent: Agent, day: str) -> None:
    assert "is not a date. Write one such as '2026-01-31'" in await agent.refused("daily_note", date=day)

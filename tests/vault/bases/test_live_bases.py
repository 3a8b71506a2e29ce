"""Bases that live: who subscribes is told when the result differs, and only then."""

import json
from pathlib import Path

import anyio
import pytest

import tidings
from tests.vault.agent import ERAS, at, put
from tidings.vault.server import VaultServer

pytestmark = pytest.mark.anyio

BASE = """
filters: file.hasTag("task")
views:
  - name: Open
    filters: status != "done"
    order: [file.name, status]
"""
URI = "vault://base/Tasks.base?format=json"
FILES = {
    "Tasks.base": BASE,
    "A.md": "---\nstatus: todo\n---\n#task\n",
    "B.md": "---\nstatus: done\n---\n#task\n",
    "Else.md": "Nothing.\n",
}


def task(status: str, text: str = "") -> str:
    return f"---\nstatus: {status}\n---\n#task {text}\n"


@pytest.mark.parametrize("era", ERAS)
async def test_a_base_is_read_in_both_eras(tmp_path: Path, era: str) -> None:
    async with at(tmp_path, FILES, era=era) as agent:
        text = (await agent.client.read_resource("vault://base/Tasks.base")).contents[0]
        rows = (await agent.client.read_resource(URI)).contents[0]

    assert text.text == "## Open (Tasks.base, 1 row)\n\n| file.name | status |\n|---|---|\n| A | todo |\n"
    assert text.mime_type == "text/markdown"
    (view,) = json.loads(rows.text)["views"]
    assert view["rows"] == [{"path": "A.md", "values": {"file.name": "A", "status": "todo"}}]


async def test_an_edit_that_changes_the_result_is_told_and_no_other(tmp_path: Path) -> None:
    root = tmp_path / "Vault"
    root.mkdir()
    put(root, FILES)
    server = VaultServer(root, cache=tmp_path / "cache")
    seen: list[list[str]] = []

    def edit(step: int) -> None:
        match step:
            case 1:
                put(root, {"Else.md": "Still nothing.\n", "B.md": task("done", "edited")})  # Not in the result.
                put(root, {"A.md": task("todo", "edited")})  # No column differs.
                put(root, {"C.md": task("new")})
            case 2:
                put(root, {"A.md": task("doing")})
            case 3:
                (root / "C.md").rename(root / "D.md")
            case 4:
                put(root, {"Tasks.base": BASE.replace("Open", "Renamed")})
            case _:
                pass

    with anyio.fail_after(60):
        async with tidings.connect(server) as client:
            await server.library.settled()
            async for base in client.watch(URI):
                (view,) = json.loads(base.text)["views"]
                seen.append([view["view"], *(f"{row['path']} {row['values']['status']}" for row in view["rows"])])
                if len(seen) == 5:
                    break
                edit(len(seen))

    assert seen == [
        ["Open", "A.md todo"],
        ["Open", "A.md todo", "C.md new"],
        ["Open", "A.md doing", "C.md new"],
        ["Open", "A.md doing", "D.md new"],
        ["Renamed", "A.md doing", "D.md new"],
    ]


async def test_bases_in_a_note_are_computed_for_that_note(tmp_path: Path) -> None:
    block = "~~~~base\nfilters: file.hasLink(this)\nviews:\n  - name: Here\n~~~~\n"
    files = {**FILES, "Home.md": f"![[Tasks.base#open]]\n{block}```js\n```base\n```\n", "C.md": "[[Home]]"}
    async with at(tmp_path, files) as agent:
        both = (await agent.client.read_resource("vault://base/Home")).contents[0].text
        there = (await agent.client.read_resource("vault://base/Home?view=here")).contents[0].text

    assert there == "## Here (Home.md, 1 row)\n\n| file.name |\n|---|\n| C |\n"
    assert both == f"{there}\n## Open (Tasks.base, 1 row)\n\n| file.name | status |\n|---|---|\n| A | todo |\n"

"""What `read` shows of bases, canvases and images; the notes of weeks to years."""

from base64 import b64decode
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.vault.agent import ERAS, at
from tidings.vault.tools import read

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
FILES: dict[str, str | bytes] = {
    "B.base": "views:\n  - name: One\n    filters: file.ext == 'md'\n  - name: Two\n    limit: 1\n",
    "Board.canvas": '{"nodes": [{"type": "text", "text": "Card"}]}',
    "pic.jpg": PNG,
    "fake.png": b"\0not one",
    "A.md": "a\n",
}


@pytest.mark.parametrize("era", ERAS)
async def test_a_base_is_read_as_its_rows_and_by_lines_as_its_source(tmp_path: Path, era: str) -> None:
    async with at(tmp_path, FILES, era=era) as agent:
        (both,) = (await agent.call("read", paths=["B.base"]))["notes"]
        (one,) = (await agent.call("read", paths=["B.base"], section="one"))["notes"]
        (source,) = (await agent.call("read", paths=["B.base"], lines="1-"))["notes"]
        refused = await agent.refused("read", paths=["B.base"], section="Three")
        (cut,) = (await agent.call("read", paths=["B.base"], max_tokens=10))["notes"]

    assert one["text"] == "## One (B.base, 1 row)\n\n| file.name |\n|---|\n| A |\n"
    assert both["text"].startswith(one["text"])
    assert "## Two (B.base, 1 of 5 rows)" in both["text"]
    assert one["note"] == "This is its result; lines='1-' shows its source."
    assert source["text"] == FILES["B.base"]
    assert source["version"] == both["version"]
    assert refused == "'B.base' has no view 'Three'. It has 'One', 'Two'."
    assert "max_tokens=" in cut["left_out"]


async def test_a_canvas_is_read_as_text(tmp_path: Path) -> None:
    async with at(tmp_path, FILES) as agent:
        (canvas,) = (await agent.call("read", paths=["Board.canvas"]))["notes"]

    assert canvas["text"] == "## Cards\n\n- Card\n"


@pytest.mark.parametrize("era", ERAS)
async def test_an_image_is_returned_as_one_by_what_it_is(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at(tmp_path, FILES, era=era) as agent:
        result = await agent.client.call_tool("read", {"paths": ["pic.jpg", "A"]})
        fake = await agent.refused("read", paths=["fake.png"])
        monkeypatch.setattr(read, "LARGEST_IMAGE", 50)
        large = await agent.refused("read", paths=["pic.jpg"])

    said, image = result.content
    assert "It is an image, image/png, of 108 bytes." in said.text
    assert (image.type, image.mime_type, b64decode(image.data)) == ("image", "image/png", PNG)
    assert "vault://attachment/fake.png" in fake
    assert "'pic.jpg' has 108 bytes. Images of up to 50 bytes are shown." in large


async def test_a_note_of_a_week_is_created_from_its_template(tmp_path: Path) -> None:
    settings = '{"weekly": {"enabled": true, "format": "GGGG-[W]WW", "folder": "Weeks", "template": "T"}}'
    files = {".obsidian/plugins/periodic-notes/data.json": settings, "T.md": "# {{title}}\n{{monday}} {{date}}\n"}
    today = datetime.now().astimezone().date()
    monday = today - timedelta(today.weekday())
    async with at(tmp_path, files) as agent:
        place = f"Weeks/{today:%G-W%V}.md"
        assert f"There is no weekly note of {today}. It would be '{place}'." in await agent.refused(
            "daily_note", period="weekly"
        )
        (note,) = (await agent.call("daily_note", period="weekly", append="- call"))["notes"]

    assert (note["path"], note["text"]) == (place, f"# {today:%G-W%V}\n{monday} {monday}\n- call\n")


async def test_the_facts_of_a_note_have_a_link_that_opens_it_in_the_app(tmp_path: Path) -> None:
    async with at(tmp_path, {"My notes/A b.md": "x"}) as agent:
        facts = await agent.call("info", path="A b")

    assert facts["open"] == "obsidian://open?vault=Vault&file=My%20notes%2FA%20b"

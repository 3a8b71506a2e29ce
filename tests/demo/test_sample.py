"""The sample vault and the site: what is in them, and what happens to them."""

import re
from datetime import date
from pathlib import Path

import httpx2
import pytest

from tidings.demo.sample import Sample, StageFailed
from tidings.demo.show import Site


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    made = Sample(tmp_path / "Bakery", date(2026, 11, 15))
    made.write()
    return made


def notes(sample: Sample) -> dict[str, str]:
    return {path.stem: path.read_text() for path in sample.folder.rglob("*.md")}


def test_there_are_a_dozen_notes_with_links_tags_and_tasks(sample: Sample) -> None:
    found = notes(sample)
    assert len(found) >= 12
    assert {"2026-11-15", "2026-11-14", "Launch plan", "Noor"} <= set(found)
    together = "\n".join(found.values())
    assert "{" not in together
    assert "- [ ] " in together
    assert "tags: [" in together


def test_every_link_leads_to_a_note(sample: Sample) -> None:
    found = notes(sample)
    assert {link for text in found.values() for link in re.findall(r"\[\[([^\]|#]+)", text)} <= set(found)


def test_an_edit_ticks_a_task_off_and_adds_another_however_often(sample: Sample) -> None:
    before = sample.plan.read_text()
    seen = {before}
    for _ in range(12):
        sample.edit_plan()
        seen.add(sample.plan.read_text())
    assert len(seen) == 13
    assert sample.plan.read_text().count("- [x] ") > before.count("- [x] ")


def test_a_plan_that_somebody_changed_or_deleted_is_edited_all_the_same(sample: Sample) -> None:
    sample.plan.write_text("mine")
    words = sample.edit_while_away()
    assert sample.plan.read_text() == f"mine\n- [ ] {words}\n"
    sample.plan.unlink()
    assert sample.saved_at("Projects/Launch plan.md") is None
    sample.edit_plan()
    assert "- [ ] " in sample.plan.read_text()
    assert sample.saved_at("Projects/Launch plan.md") is not None


def test_a_folder_that_cannot_be_written_to_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sample = Sample(tmp_path / "file" / "Bakery", date(2026, 11, 15))
    for write in (sample.write, sample.edit_plan, sample.take_order):
        with pytest.raises(StageFailed, match=r"temporary folder: .* Set TMPDIR to a folder"):
            write()


@pytest.mark.anyio
async def test_a_page_is_sent_again_only_if_it_changed() -> None:
    site = Site()
    async with site.served(), httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(site.url)).status_code == 200
        assert (await client.get(f"{site.url}/about")).status_code == 200
        assert (await client.get(f"{site.url}/..%2fsecret")).status_code == 404
        first = await client.get(site.page)
        tag = {"if-none-match": first.headers["etag"]}
        assert (await client.get(site.page, headers=tag)).status_code == 304
        site.change()
        again = await client.get(site.page, headers=tag)
        assert again.status_code == 200
        assert again.text != first.text
        assert "{" not in again.text

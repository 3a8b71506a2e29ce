"""The benchmark of the inspector's page measures what a browser really did."""

import json
from pathlib import Path

import pytest

from benchmarks import inspector


@pytest.mark.browser
@pytest.mark.thorough
def test_2000_tools_are_looked_at_in_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    assert inspector.main(["--quick", "--only", "tools", "--json", str(file)]) in (0, 1)  # How fast is not judged here.
    rows = json.loads(file.read_text())
    assert [row["what"].split(" of ")[0] for row in rows] == ["ms, tab", "ms, filter", "ms, selection"]
    assert all(row["value"] > 0 and row["target"]["bound"] == 200 for row in rows)
    assert "| official |" in capsys.readouterr().out


@pytest.mark.browser
def test_what_cannot_be_measured_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def broken(*_: object) -> list[object]:
        raise AssertionError("the page said no\nand more")

    monkeypatch.setattr(inspector, "tools", broken)
    assert inspector.main(["--quick", "--only", "tools"]) == 2
    assert "not measured: tools: the page said no\n" in capsys.readouterr().err


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        inspector.main(["--only", "floods"])
    assert "invalid choice: 'floods'" in capsys.readouterr().err

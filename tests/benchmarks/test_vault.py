"""A vault server is only worth measuring if what it finds is true. No figure is asserted: machines differ."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import installing, vault
from benchmarks.installing import NotInstalled
from benchmarks.parts import vault_limits, vault_servers
from benchmarks.parts.vault_notes import COMMON, PATTERN, PHRASE, RARE, generate
from benchmarks.parts.vault_search import SAID
from benchmarks.parts.vault_yard import VaultSize, Yard, high, ratios
from benchmarks.process import ProcessFailed
from benchmarks.report import TIMES, Row, table

TINY = VaultSize(
    notes=100,
    many=150,
    starts=1,
    builds=1,
    calls=2,
    peer_calls=1,
    edits=4,
    watched=3,
    burst=30,
    bursts=1,
    idle=0.1,
    patience=50,
)


def rows_of(tmp_path: Path, *parts: str) -> list[dict]:
    file = tmp_path / "rows.json"
    only = [word for part in parts for word in ("--only", part)]
    code = vault.main([*only, "--alone", "--json", str(file)], TINY)
    assert code in {0, 1}
    *rows, others = json.loads(file.read_text())
    assert others["others"]["bare"] >= 0
    return rows


@pytest.mark.thorough
@pytest.mark.timeout(120)
def test_starts_builds_and_restarts_are_timed_on_both_vaults(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "start", "index")
    assert Counter(row["part"] for row in rows) == {"start": 2, "index": 4, "memory": 2, "idle": 2}
    for row in rows:
        assert row["tidings"] > 0 or row["part"] == "idle"
        assert ("150 notes" in row["what"]) != ("100 notes" in row["what"])
    assert all(row["others"]["bare"] > 0 for row in rows if row["part"] == "start")
    judged = [row["what"] for row in rows if row["target"]]
    assert len(judged) == 8  # Of the larger vault, no restart and no memory.


@pytest.mark.timeout(120)
def test_each_question_is_asked_on_both_vaults(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "search")
    asked = [row for row in rows if row["part"] == "search"]
    assert [row["what"] for row in asked] == [
        f"ms for {said}, {notes} notes" for notes in (100, 150) for said in SAID.values()
    ]
    assert all(row["tidings"] > 0 for row in asked)
    assert [row["part"] for row in rows if row not in asked] == ["memory", "memory"]
    assert all(row["others"]["bare"] > 0 for row in asked if "word" in row["what"])


@pytest.mark.timeout(120)
def test_edits_and_bursts_arrive(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "edits", "burst")
    assert Counter(row["part"] for row in rows) == {"edits": 7, "burst": 2}
    assert all(row["tidings"] >= 0 for row in rows)
    once = [row for row in rows if row["what"].startswith("notifications of a note")]
    assert [row["met"] for row in once] == [True, True]


def test_the_same_seed_writes_the_same_vault_and_knows_what_is_in_it(tmp_path: Path) -> None:
    first, second, other = (
        generate(tmp_path / "1", 120),
        generate(tmp_path / "2", 120),
        generate(tmp_path / "3", 120, 2),
    )
    texts = {path: (first.root / path).read_text() for path in first.notes}
    assert texts == {path: (second.root / path).read_text() for path in second.notes}
    assert first.notes != other.notes
    assert len(texts) == len(list(first.root.rglob("*.md"))) == 120
    assert sum(len(text.encode()) for text in texts.values()) == first.size

    def having(pattern: str) -> set[str]:
        return {path for path, text in texts.items() if re.search(pattern, text, re.IGNORECASE)}

    assert having(rf"\b{RARE}\b") == having(PATTERN) == first.rare
    assert len(first.rare) == 3
    assert len(having(rf"\b{COMMON}\b")) == first.common
    assert len(having(PHRASE)) == first.phrase == 1
    assert first.tags.keys() < first.nested
    for kind in ("*.png", "*.canvas", "*.base"):
        assert list(first.root.rglob(kind))


def test_a_note_has_about_as_many_bytes_as_people_write(tmp_path: Path) -> None:
    made = generate(tmp_path, 300)
    assert 2_000 < made.size / 300 < 2_800
    assert made.common > 200


def test_an_answer_that_is_wrong_fails_the_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def lose(yard: Yard) -> list[Row]:
        raise ProcessFailed(f"a search in {yard.size.notes} notes finds nothing")

    monkeypatch.setitem(vault.PARTS, "search", lose)
    assert vault.main(["--only", "search", "--alone"], TINY) == 2
    assert "not measured: search: a search in 100 notes finds nothing" in capsys.readouterr().err


def test_a_peer_that_cannot_be_installed_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installing, "TOOLS", tmp_path)
    monkeypatch.setattr(vault_servers, "_node", lambda *arguments: ["false"])
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(tmp_path / "uv"))
    with Yard(TINY) as yard:
        assert yard.peers == []
    said = capsys.readouterr().err
    assert "McpVault is left out: false could not install it (1)" in said
    assert "MarkdownVault is left out: uv could not install it (FileNotFoundError)" in said


def test_what_was_installed_is_not_installed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "TOOLS", tmp_path)
    runs: list[list[str]] = []
    monkeypatch.setattr(installing, "run", runs.append)
    (tmp_path / "mcpvault" / vault_servers.McpVault.version / "half").mkdir(parents=True)
    for _ in range(2):
        vault_servers.McpVault()
    assert len(runs) == 1
    assert [file.name for file in tmp_path.glob("mcpvault/*/*")] == ["complete"]


def test_without_ripgrep_its_column_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_limits.shutil, "which", lambda name: None)
    assert vault_limits.ripgrep(generate(tmp_path, 10), "rare", 1) is None


def test_what_stands_beside_has_columns_of_its_own() -> None:
    rows = [Row("part", "what", tidings=2, others={"one": 4.0}), Row("part", "other", others={"two": "error"})]
    head, _, first, second = ([cell.strip() for cell in line.split("|")][2:5] for line in table(rows).splitlines())
    nothing = "\N{EN DASH}"
    assert head == ["Tidings", "one", "two"]
    assert first == ["2", "4", nothing]
    assert second == [nothing, nothing, "error"]
    assert ratios(2, rows[0].others | rows[1].others) == f"one 2{TIMES}"
    assert high([float(number) for number in range(100)]) == 95


def test_a_server_that_does_not_answer_says_why(tmp_path: Path) -> None:
    with (
        vault_limits.Session(["sh", "-c", "echo no such vault >&2; exit 3"], tmp_path / "log") as session,
        pytest.raises(ProcessFailed, match=r"is gone \(exit code 3\). no such vault"),
    ):
        session.open()


def test_a_failing_installation_names_the_kind_of_failure() -> None:
    with pytest.raises(NotInstalled, match=r"sh could not install it \(ENOTFOUND\)"):
        installing.run(["sh", "-c", "echo 'npm error code ENOTFOUND registry' >&2; exit 1"])

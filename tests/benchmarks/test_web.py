"""What is measured of extraction is measured truthfully."""

import gzip
import json
import sys
from pathlib import Path

import pytest

from benchmarks import web
from benchmarks.installing import NotInstalled
from benchmarks.parts import web_quality, web_worker
from benchmarks.parts.web_labels import labels
from benchmarks.parts.web_truth import Known, agrees, f1, pages, scores
from tests.web.extract.sample import SENTENCES, article


def test_the_score_counts_each_word_as_often_as_it_stands_there() -> None:
    assert f1("a b", "A, b!") == 1
    assert f1("a a b", "a b b") == pytest.approx(2 / 3)
    assert f1("x", "a") == 0
    assert f1("", "") == 1
    assert f1("", "a") == 0


def test_metadata_is_right_by_its_words_its_names_and_its_day() -> None:
    assert agrees("title", "A ferry, again", "a ferry again")
    assert not agrees("title", "A ferry | The Harbour", "A ferry")
    assert agrees("author", "Jo Day, Al Sea", "Al Sea and Jo Day")
    assert agrees("publish_date", "2024-05-03T10:00:00+00:00", "2024-05-03")
    assert not agrees("publish_date", "", "2024-05-03")


def test_scores_are_means_over_pages_and_over_the_mix_of_kinds() -> None:
    known = [
        Known("1", "", "article", "a", b""),
        Known("2", "", "article", "b", b""),
        Known("3", "", "forum", "c", b""),
    ]
    score = scores(known, lambda page: "a c")
    assert score.kinds == {"article": pytest.approx(1 / 3), "forum": pytest.approx(2 / 3)}
    assert score.flat == pytest.approx(4 / 9)
    assert 1 / 3 < score.mixed < 4 / 9


def test_blocks_are_labelled_by_their_place_and_not_by_their_words_alone() -> None:
    blocks = ["Home Ferry Museum", "Ferry", SENTENCES[0], "!", SENTENCES[1] + " Share this", "Museum"]
    found = labels(blocks, f"Ferry\n{SENTENCES[0]}\n{SENTENCES[1]}")
    assert found[1:4] == [1.0, 1.0, None]
    assert found[4] == pytest.approx(0.9, abs=0.05)
    assert found[5] == 0


def test_content_that_the_page_has_twice_or_in_another_order_is_labelled_once() -> None:
    assert labels([*SENTENCES, *SENTENCES], "\n".join(SENTENCES)) == [1.0] * len(SENTENCES) + [0.0] * len(SENTENCES)
    first, second, third, *_ = SENTENCES
    assert labels([third, "Home Ferry", second, first], f"{first} {second} {third}") == [1.0, 0.0, 1.0, 1.0]


def test_without_pages_nothing_is_measured_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pages(tmp_path) == []
    assert web.main(["--pages", str(tmp_path)]) == 0
    assert "no pages" in capsys.readouterr().err


def write(home: Path, number: int = 2) -> None:
    """Pages whose content is known, since they are written here."""
    lines: list[str] = []
    for each in map(str, range(number)):
        truth = {"id": each, "url": f"https://a.example/{each}", "page_type": "article", "title": "Unheard of"}
        lines.append(json.dumps({**truth, "main_content": "\n".join(SENTENCES * 8)}) + "\n")
        (home / f"{each}.html.gz").write_bytes(gzip.compress(article()))
    (home / "truth.jsonl").write_text("".join(lines))


def test_a_small_set_of_pages_is_measured_without_the_peers_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)

    def python_with(name: str, _: str) -> str:
        if name == "resiliparse":
            raise NotInstalled("uv could not install it (2)")
        return sys.executable

    monkeypatch.setattr(web_quality, "from_pypi", python_with)
    monkeypatch.setattr(web_quality, "PEERS", {"resiliparse": "1", "unheard-of": "2"})
    code = web.main(["--pages", str(tmp_path), "--json", str(tmp_path / "rows.json")])
    assert code in {0, 1}  # the speed of two pages on a busy machine is no matter here
    said = capsys.readouterr().err
    rows = {row["what"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["word F1, article pages"]["tidings"] > 0.8
    assert rows["pages a CPU second"]["tidings"] > 0
    assert rows["titles that are right, where they are known"]["tidings"] == 0
    assert "resiliparse is left out: uv could not install it (2)" in said
    assert "unheard-of is left out: web_worker unheard-of" in said
    assert "KeyError" in said


def test_alone_no_peer_is_installed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 3)
    assert web.main(["--pages", str(tmp_path), "--alone", "--most", "1"]) in {0, 1}
    shown = capsys.readouterr()
    assert "| word F1, article pages" in shown.out
    assert "trafilatura" not in shown.out
    assert "quality: page 1 of 1\n" in shown.err


def test_a_page_that_a_method_fails_on_is_one_without_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)

    def picky(page: Known) -> str:
        if page.id == "1":
            raise ValueError("not this one")
        return page.content

    monkeypatch.setitem(web_worker.METHODS, "picky", picky)
    worker = web_worker.Worker("picky", tmp_path)
    assert [worker.read(0)["score"], worker.read(1)["score"]] == [1, 0]
    assert "failed on 1: ValueError('not this one')" in capsys.readouterr().err


def test_without_what_it_needs_nothing_is_fitted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(web, "find_spec", lambda _: None)
    assert web._fitted(tmp_path, tmp_path) is None
    assert "install lightgbm and numpy" in capsys.readouterr().err


def test_how_much_quicker_it_is_than_the_best_library_is_judged() -> None:
    of = {"flat": 1.0, "mixed": 1.0, "article": 1.0, "speed": 90.0, "memory": 1.0}
    rows = web_quality.rows({"tidings": of, "trafilatura": {**of, "speed": 30.0}})
    assert (rows[-1].value, rows[-1].met) == (3.0, True)


def test_a_cpu_second_is_worth_what_the_peers_make_of_it() -> None:
    of = {"flat": 1.0, "mixed": 1.0, "article": 1.0, "speed": 40.0, "memory": 1.0}
    peers = {name: {**of, "speed": there / 2} for name, there in web_quality.REFERENCE.items()}

    [row] = [row for row in web_quality.rows({"tidings": of, **peers}) if "on the machine" in row.what]

    assert row.value == 80.0
    assert row.target == web_quality.SPEED


def test_without_all_the_peers_the_plain_speed_is_judged() -> None:
    of = {"flat": 1.0, "mixed": 1.0, "article": 1.0, "speed": 40.0, "memory": 1.0}

    [row] = [row for row in web_quality.rows({"tidings": of}) if row.target == web_quality.SPEED]

    assert row.value == 40.0

"""What is measured of extraction is measured truthfully."""

import gzip
import json
from pathlib import Path

import pytest

from benchmarks import web
from benchmarks.parts import web_quality
from benchmarks.parts.web_labels import labels
from benchmarks.parts.web_truth import Known, f1, pages, scores
from tests.web.extract.sample import SENTENCES, article, paragraphs


def test_the_score_counts_each_word_as_often_as_it_stands_there() -> None:
    assert f1("a b", "A, b!") == 1
    assert f1("a a b", "a b b") == pytest.approx(2 / 3)
    assert f1("x", "a") == 0
    assert f1("", "") == 1
    assert f1("", "a") == 0


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


def test_without_pages_nothing_is_measured_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pages(tmp_path) == []
    assert web.main(["--pages", str(tmp_path)]) == 0
    assert "no pages" in capsys.readouterr().err


def test_a_small_set_of_pages_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = {"id": "1", "url": "https://a.example/b", "page_type": "article", "main_content": paragraphs()}
    (tmp_path / "truth.jsonl").write_text(json.dumps(truth) + "\n")
    (tmp_path / "1.html.gz").write_bytes(gzip.compress(article()))
    monkeypatch.setattr(web_quality, "METHODS", {"tidings": web_quality.METHODS["tidings"], "no": ("no.such", str)})
    assert web.main(["--pages", str(tmp_path)]) in {0, 1}  # the speed of one page on a busy machine is no matter here
    shown = capsys.readouterr()
    assert "word F1, article pages" in shown.out
    assert "no is left out" in shown.err

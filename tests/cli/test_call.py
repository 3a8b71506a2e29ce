"""`tidings call`: arguments in all their forms, what comes back, and what goes wrong."""

import json
from pathlib import Path

import pytest

from tests.cli.running import odd, tidings


@pytest.mark.parametrize("era", ["modern", "plain"])
def test_arguments_are_typed_by_the_schema(era: str) -> None:
    done = tidings("call", odd(era), "add", "a=20", "b=22")
    assert (done.code, done.out, done.err) == (0, "42\n", "")


@pytest.mark.parametrize("form", [("--json", '{"a": 1, "b": 2}'), ('--json={"a": 1, "b": 2}',)])
def test_json_in_means_json_out(form: tuple[str, ...]) -> None:
    done = tidings("call", odd(), "add", *form)
    assert done.json["content"] == [{"type": "text", "text": "3"}]


def test_arguments_as_json_alone_leave_the_output_as_it_is() -> None:
    assert tidings("call", odd(), "add", "--args", '{"a": 1, "b": 2}').out == "3\n"
    assert tidings("call", "add", "a=1", "b=2", "--json", "--", *odd().split()).json["content"][0]["text"] == "3"


def test_arguments_come_from_standard_input() -> None:
    assert tidings("call", odd(), "add", "-", given='{"a": 1, "b": 2}').out == "3\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("add", "a=1"), "b: "),
        (("add", "a=x", "b=1"), "a: expected an integer"),
        (("add", "a=1", "b=0"), "b: "),
        (("add", "a=1", "b=2", "sea=3"), "sea: is not known."),
        (("add", "a=1", "bb=2"), "Did you mean b?"),
        (("ad", "a=1"), "no tool 'ad'. Did you mean 'add'"),
        (("add", "--args", "[1]"), "must be a JSON object"),
        (("add", "--args", "{a"), "not JSON"),
        (("add", "a=1", "--args", "{}"), "not both"),
    ],
)
def test_a_mistake_in_the_arguments_is_named_with_its_place(args: tuple[str, ...], words: str) -> None:
    done = tidings("call", odd(), *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.startswith("Error: ")


def test_what_breaks_the_schema_is_sent_if_that_is_wanted() -> None:
    assert tidings("call", odd(), "add", "--args", '{"a": 1, "b": -1}', "--no-check").out == "0\n"
    done = tidings("call", odd(), "subtract", "--no-check", "--json")
    assert (done.code, done.error["code"]) == (7, "request-failed")


def test_a_tool_that_says_it_failed_ends_with_1() -> None:
    done = tidings("call", odd(), "break")
    assert (done.code, done.out) == (1, "")
    assert "it broke" in done.err
    done = tidings("call", odd(), "break", "--json")
    assert (done.code, done.json["isError"], done.err) == (1, True, "")


def test_a_result_that_breaks_its_own_schema_is_shown() -> None:
    done = tidings("call", odd(), "lie", "--json")
    assert (done.code, done.error["code"], done.error["who"]) == (6, "malformed-message", "the server")
    assert done.error["payload"]["structuredContent"] == {"total": 3}


def test_a_server_that_dies_meanwhile_is_named_and_called_once() -> None:
    done = tidings("call", odd(), "die", "--json")
    assert done.code in (3, 7)
    assert done.error["code"] in ("connection-lost", "effect-unknown")


def test_an_image_is_described_and_saved(tmp_path: Path) -> None:
    assert tidings("call", odd(), "draw").out == "[image: image/png of 5 bytes; --output FILE saves it]\n"
    assert tidings("call", odd(), "draw", "-o", str(tmp_path / "dot.png")).code == 0
    assert (tmp_path / "dot.png").read_bytes() == b"\x89PNG\x00"
    done = tidings("call", odd(), "add", "a=1", "b=2", "-o", str(tmp_path / "x"))
    assert (done.code, "no binary content" in done.err) == (2, True)


def test_progress_is_told_in_lines(weather: str) -> None:
    done = tidings("call", weather, "slow", "steps=2", "--progress")
    assert (done.code, done.out) == (0, "done\n")
    assert done.err.splitlines() == ["1/2 (50 %) step 1", "2/2 (100 %) step 2"]


def test_progress_is_told_as_events(weather: str) -> None:
    *events, last = tidings("call", weather, "slow", "steps=2", "--progress", "--json").lines
    assert events == [{"progress": n, "total": 2.0, "message": f"step {n}"} for n in (1, 2)]
    assert last["result"]["content"][0]["text"] == "done"


def test_a_question_is_answered_by_a_script(weather: str, tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps([{"elicitation": "*your name*", "accept": {"name": "Ada"}}]))
    done = tidings("call", weather, "greet", "--era", "legacy", "--answers", str(script))
    assert (done.code, done.out) == (0, "accept name='Ada' age=3\n")


def test_a_question_that_nobody_can_answer_is_refused_with_the_cure(weather: str) -> None:
    done = tidings("call", weather, "greet", "--era", "legacy")
    assert done.code == 2
    assert "The server asks (elicitation): What is your name?" in done.err
    assert "--answers FILE" in done.err


def test_a_script_that_is_none_is_refused(tmp_path: Path) -> None:
    done = tidings("call", odd(), "say", "--answers", str(tmp_path / "no.json"))
    assert (done.code, "cannot be read" in done.err) == (2, True)


def test_roots_are_what_was_given(tmp_path: Path) -> None:
    done = tidings("call", odd(), "say", "text=hi", "--root", str(tmp_path), "-v")
    assert (done.code, done.out) == (0, '{"text": "hi"}\n')
    assert "roots" in done.err


def test_a_call_that_takes_too_long_is_ended() -> None:
    done = tidings("call", odd("silent"), "add", "a=1", "b=2", "--timeout", "3", "--json")
    assert (done.code, done.error["code"]) == (5, "request-timed-out")


def test_the_documentation_has_a_script_of_answers_that_works(weather: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/cli.md").read_text("utf-8")
    script = tmp_path / "answers.yaml"
    script.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    done = tidings("call", weather, "greet", "--era", "legacy", "--answers", str(script))
    assert (done.code, done.out) == (0, "accept name='Ada' age=36\n"), done.err


def test_bytes_that_are_no_text_are_not_sent() -> None:
    done = tidings("call", odd(), "say", "text=\udcff", "--json")
    assert (done.code, done.error["code"]) == (2, "bad-arguments")

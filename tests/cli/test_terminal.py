"""Output in a terminal: colour, width, questions, and harmless text from servers."""

from pathlib import Path

import pytest

from tests.cli.running import WEATHER, odd, terminal


def test_colour_is_for_terminals_and_can_be_turned_off() -> None:
    with terminal("list", odd(), "tools") as screen:
        assert "\x1b[1madd\x1b[0m" in screen.end()[1]
    with terminal("list", odd(), "tools", NO_COLOR="1") as screen:
        assert "\x1b" not in screen.end()[1]


def test_long_texts_are_cut_to_the_width_and_it_is_said_how_to_see_the_rest() -> None:
    with terminal("list", odd(), "tools", columns=26, NO_COLOR="1") as screen:
        code, said = screen.end()
    assert code == 0
    assert "Add two nu…" in said
    assert all(len(line) <= 26 for line in said.splitlines() if not line.startswith("Some texts"))
    assert "`tidings list TARGET tools NAME` shows one in full" in said


def test_what_steers_a_terminal_is_made_visible() -> None:
    with terminal("read", odd(), "note://one", NO_COLOR="1") as screen:
        assert screen.end() == (0, "first ␛[31mred\r\n")


def test_what_steers_a_terminal_is_made_visible_in_errors_and_documents_too() -> None:
    with terminal("list", odd("steers"), "tools", NO_COLOR="1") as screen:
        code, said = screen.end()
    assert code == 7
    assert "␛[2J<U+009B>gone" in said
    assert "The server sent:\r\n  ␛[31m" in said
    for more in ([], ["--json"]):
        with terminal("list", odd("rows"), "tools", *more, NO_COLOR="1") as screen:
            code, said = screen.end()
        assert code == 0
        assert "\x9b" not in said
        assert ("one␊two<U+009B>" in said) or r"one\ntwo\u009b" in said


def test_binary_content_is_refused_with_its_size_and_the_cure() -> None:
    with terminal("read", odd(), "bin://dot") as screen:
        code, said = screen.end()
    assert code == 2
    assert "image/png of 5 bytes" in said
    assert "--output FILE" in said


def test_a_document_is_indented_for_people() -> None:
    with terminal("info", odd(), "--json") as screen:
        assert '\r\n  "protocolVersion"' in screen.end()[1]


def test_progress_is_one_line_that_goes_away(weather: str) -> None:
    with terminal("call", weather, "slow", "steps=2") as screen:
        assert "\r\x1b[K1/2 (50 %) step 1" in screen.expect("2/2 (100 %) step 2")
        code, said = screen.end()
    assert (code, said) == (0, "\r\x1b[Kdone\r\n")


def test_a_load_shows_how_far_it_is_and_then_what_it_took(weather: str) -> None:
    with terminal("load", weather, "slow", "steps=2", "--requests", "2") as screen:
        screen.expect("\r\x1b[K[##########..........] 1 call in ")
        code, said = screen.end()
    assert code == 0
    assert "\r\x1b[K2 calls of slow in " in said


def test_an_index_that_is_built_is_one_line_until_it_is_there(tmp_path: Path) -> None:
    notes = tmp_path / "Notes"
    notes.mkdir()
    for number in range(1500):
        (notes / f"{number}.md").write_text(f"# {number}\n")
    with terminal("vault", str(notes), "--cache", str(tmp_path / "cache"), "--http", "127.0.0.1:0") as screen:
        drawn = screen.expect("Indexed 1,500 notes in ")
    assert "\r\x1b[K[##" in drawn
    assert " of 1,500 files\r\x1b[K" in drawn
    assert "of 1,500 files\r\n" not in drawn


def test_a_form_is_asked_field_by_field_and_checked(weather: str) -> None:
    with terminal("call", weather, "greet", "--era", "legacy", NO_COLOR="1") as screen:
        assert "weather asks: " in screen.expect("What is your name?")
        screen.expect("Name*: ")
        screen.type("\n")  # Needed, so asked again.
        screen.expect("Name*: ")
        screen.type("Ada\n")
        screen.expect("Age [3]: ")
        screen.type("many\n")
        screen.expect("expected an integer")
        screen.expect("Age [3]: ")
        screen.type("36\n")
        screen.expect("Send this?")
        screen.type("\n")
        code, said = screen.end()
    assert code == 0
    assert "accept name='Ada' age=36" in said


@pytest.mark.parametrize(("last", "action"), [("d", "decline"), ("c", "cancel")])
def test_a_form_may_be_declined_or_cancelled_at_its_end(weather: str, last: str, action: str) -> None:
    with terminal("call", weather, "greet", "--era", "legacy", NO_COLOR="1") as screen:
        for question, answer in (("Name*: ", "Ada"), ("Age [3]: ", ""), ("Send this?", last)):
            screen.expect(question)
            screen.type(f"{answer}\n")
        code, said = screen.end()
    assert code == 0
    assert f"{action} None" in said


def test_a_form_may_be_declined_at_once(weather: str) -> None:
    with terminal("call", weather, "greet", "--era", "legacy", NO_COLOR="1") as screen:
        screen.expect("Name*: ")
        screen.type("\x04")
        code, said = screen.end()
    assert code == 0
    assert "decline None" in said


def test_a_question_during_a_quick_command_is_asked_too() -> None:
    with terminal("prompt", odd("asks"), "ask", "city=x", NO_COLOR="1") as screen:
        screen.expect("Who are you?")
        for question, answer in (
            ("name*: ", "Ada"),
            ("2. Beta (b)", ""),
            ("kind [omit]: ", "gamma"),
            ("expected one of", ""),
            ("kind [omit]: ", "2"),
            ("sure [omit]: ", "perhaps"),
            ("expected true or false", ""),
            ("sure [omit]: ", "yes"),
            ("Send this?", "y"),
        ):
            screen.expect(question)
            if answer:
                screen.type(f"{answer}\n")
        assert "I am Ada." in screen.end()[1]


@pytest.mark.parametrize(
    ("behaviour", "shown", "typed", "said"),
    [
        ("samples", "user: Who am I?", "Ada\n", "I am Ada."),
        ("samples", "system: Be brief.", "\n", "I am nobody: The user declined"),
        ("samples", "Your answer", "\x04", "I am nobody: The user declined"),
        ("links", "https://example.com/in", "y\n", "I am accept."),
        ("links", "Done?", "d\n", "I am decline."),
        ("links", "Done?", "\x04", "I am cancel."),
    ],
)
def test_samples_and_addresses_are_asked_about(behaviour: str, shown: str, typed: str, said: str) -> None:
    with terminal("prompt", odd(behaviour), "ask", "city=x", NO_COLOR="1") as screen:
        screen.expect(shown)
        screen.expect(": ") if "Done" not in shown and "answer" not in shown else None
        screen.type(typed)
        assert said in screen.end()[1]


def test_ctrl_c_ends_a_question_and_the_server() -> None:
    with terminal("call", WEATHER, "greet", "--era", "legacy", NO_COLOR="1") as screen:
        screen.expect("Name*: ")
        screen.process.send_signal(2)
        code, said = screen.end()
    assert code == 130
    assert "Traceback" not in said

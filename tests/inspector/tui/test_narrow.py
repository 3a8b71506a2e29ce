"""Little room: words cut in their middle, wrapped texts, parts that are zoomed or moved, and the keys at the foot."""

import time
from collections.abc import AsyncIterator

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Input, Select

from tests.inspector.tui.inspector import NOW, Told, inspector, opened, screen
from tests.inspector.tui.sample import sample
from tidings.inspector.forms.build import form
from tidings.inspector.tui.theme import SCHEMES, theme
from tidings.inspector.tui.widgets.bars import row
from tidings.inspector.tui.widgets.forms import Form
from tidings.inspector.tui.widgets.text import PlainPage, TextView

pytestmark = pytest.mark.anyio
COLORS = SCHEMES["tidings-dark"]


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with opened(await sample(), size=(80, 24)) as pilot:
        yield pilot


async def press(pilot: Pilot[None], *keys: str) -> str:
    for key in keys:
        await pilot.press(key)
    inspector(pilot).touch()
    inspector(pilot).tick()
    await pilot.pause()
    return screen(pilot)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("demo://resource/static/document/one.md", "demo://…ent/one.md"),
        ("two words that are too long for it", "two words that ar…"),
        ("demo://notes/Launch plan.md", "demo://…ch plan.md"),
        ("short", "short             "),
        ("\u65e5\u672c\u8a9e" * 9, None),
    ],
)
def test_a_long_word_is_cut_in_its_middle(text: str, shown: str | None) -> None:
    strip = row(COLORS, "on ground", 18, [(text, "ink")])
    assert strip.cell_length == 18
    assert shown is None or strip.text == shown


async def test_resources_that_begin_alike_can_be_told_apart(pilot: Pilot[None]) -> None:
    shown = await press(pilot, "3", "j")
    assert "2024/0004.md" in shown
    assert "2024/0005.md" in shown


async def test_a_part_is_zoomed_and_the_border_moved(pilot: Pilot[None]) -> None:
    await press(pilot, "3", "j")
    pane = inspector(pilot).pane
    list_, detail = pane.column, pane.query_one(".detail")
    before = list_.size.width
    await press(pilot, "greater_than_sign")
    assert list_.size.width > before
    await press(pilot, "less_than_sign", "less_than_sign")
    assert list_.size.width < before
    await press(pilot, "z")
    assert (list_.size.width >= 78, detail.display) == (True, False)
    await press(pilot, "z", "tab", "z")
    assert (list_.display, detail.size.width >= 78) == (False, True)
    await press(pilot, "z")
    assert list_.display


async def test_slash_finds_wherever_the_focus_is(pilot: Pilot[None]) -> None:
    await press(pilot, "3", "j", "tab", "z")
    shown = await press(pilot, "slash", *"0017")
    assert "2024/0017.md" in shown
    assert "2024/0018.md" not in shown
    assert inspector(pilot).tab == "resources"


async def test_the_foot_names_the_keys_of_the_part_with_the_focus(pilot: Pilot[None]) -> None:
    assert "s subscribe" in (await press(pilot, "3", "j")).splitlines()[-1]
    assert "w wrap" in (await press(pilot, "tab")).splitlines()[-1]
    assert "Esc to the list" in (await press(pilot, "2", "enter")).splitlines()[-1]
    assert "Enter open" in (await press(pilot, "escape")).splitlines()[-1]


async def test_the_answer_to_a_question_is_visible_in_little_room(pilot: Pilot[None]) -> None:
    shown = await press(pilot, "a")
    assert "calendar*" in shown
    assert "Accept" in shown


class _Reader(App[None]):
    """A text alone."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.register_theme(theme("tidings-dark"))
        self.theme = "tidings-dark"
        self.view, self.text = TextView(), text

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.show(PlainPage(self.text))
        self.view.focus()

    @property
    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]


@pytest.mark.parametrize(
    "text", ["x" * 70 + "END", "https://example.com/" + "a/" * 30 + "END", "\u65e5\u672c" * 20 + "END"]
)
async def test_a_long_line_is_wrapped_without_loss_and_can_be_read_sideways(text: str) -> None:
    app = _Reader(f"{text}\nnext")
    async with app.run_test(size=(31, 10)) as pilot:
        await pilot.pause()
        whole = "".join(line.strip() for line in app.lines)
        assert whole == f"{text}next"
        await pilot.press("w")
        await pilot.pause()
        assert app.lines[1].strip() == "next"
        for _ in range(9):
            await pilot.press("l")
        await pilot.pause()
        assert text[72:].startswith(app.lines[0].strip())


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "The list was loaded again, and nothing in it differs.",
            ["The list was loaded again, and", "nothing in it differs."],
        ),
        ("Größer, höher, weiter, schneller: überall.", ["Größer, höher, weiter,", "schneller: überall."]),
        ("See https://example.com/a/b/c/d/e", ["See", "https://example.com/a/b/c/d/e"]),
        ("    https://example.com/a/b/c/d/e", ["    https://example.com/a/b/c/", "    d/e"]),
        ("The internationalization of it", ["The internationalization of it"]),
        ("An extraordinarily-long-word-of-it", ["An", "extraordinarily-long-word-of-it"]),
        ("file /etc/a/very/long/configuration/path.yaml", ["file /etc/a/very/long/", "configuration/path.yaml"]),
    ],
)
async def test_sentences_break_between_words_and_addresses_after_a_sign(text: str, rows: list[str]) -> None:
    app = _Reader(text)
    async with app.run_test(size=(31, 10)) as pilot:
        await pilot.pause()
        assert [line for line in app.lines if line.strip()] == rows


async def test_a_line_of_eight_megabytes_is_drawn_at_once() -> None:
    app = _Reader("{" + "x" * 8 * 2**20 + "END")
    async with app.run_test(size=(80, 24)) as pilot:
        began = time.process_time()
        app.view.scroll_end(animate=False)
        await pilot.pause()
        assert time.process_time() - began < 5
        assert "END" in "".join(app.lines)


async def test_a_number_field_refuses_letters() -> None:
    root = form({"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}}})
    made = Form()

    class Alone(App[None]):
        def compose(self) -> ComposeResult:
            yield made

    async with Alone().run_test() as pilot:
        made.show(root)
        await pilot.pause()
        whole, fraction = made.query(Input)
        whole.focus()
        await pilot.press(*"-1a2.b")
        fraction.focus()
        await pilot.press(*"1.5ex3")
        assert (whole.value, fraction.value) == ("-12", "1.5e3")


async def test_forms_that_replace_one_another_quickly_leave_no_error() -> None:
    root = form({"type": "object", "properties": {"m": {"enum": ["a", "b"]}, "b": {"type": "boolean"}}})
    made = Form()

    class Alone(App[None]):
        def compose(self) -> ComposeResult:
            yield made

    async with Alone().run_test() as pilot:
        for _ in range(8):
            made.show(root)
        await pilot.pause()
        assert len(made.query(Select)) == 2


async def test_names_that_differ_in_their_middle_can_be_told_apart() -> None:
    told = Told()
    names = ["trigger-elicitation-request-async", "trigger-sampling-request-async"]
    uris = [f"demo://resource/dynamic/{kind}/{{resourceId}}" for kind in ("text", "blob")]
    await told.add("weather", url="https://weather.example/mcp")
    tools = [{"name": name, "inputSchema": {}} for name in names]
    templates = [{"uriTemplate": uri, "name": "one"} for uri in uris]
    told.record("weather", "list", list="tools", added=tools, total=2)
    told.record("weather", "list", list="templates", added=templates, total=2)
    async with opened(told, size=(80, 24)) as pilot:
        for tab, given in (("2", names), ("3", uris)):
            shown = (await press(pilot, tab)).splitlines()[4 : 4 + len(given)]
            assert len({line[:30] for line in shown}) == len(given), shown


async def test_a_server_that_failed_says_why_with_its_error_output_in_reading_order() -> None:
    told = Told()
    await told.add("weather", command="python", args=["weather.py"])
    output = ["Traceback (most recent call last):", '  File "weather.py", line 2', "ValueError: no rain today"]
    for at, text in enumerate(output):
        told.record("weather", "stderr", at=NOW - 2 + at / 1000, text=text)
    error = {"message": "weather ended with exit code 1 before it answered.", "code": "command-failed", "who": "you"}
    told.record("weather", "state", state="disconnected", error=error)
    async with opened(told, size=(80, 24)) as pilot:
        for key in ("1", "7"):
            shown = await press(pilot, key, *["s"] * (key == "7"), "tab", "z")
            assert [
                line.strip() for line in shown.splitlines() if line.strip() in {each.strip() for each in output}
            ] == [each.strip() for each in output]
            assert (key == "7") or ("exit code 1" in shown and "R tries again" in shown)
            await press(pilot, "z")


async def test_a_long_address_above_a_content_is_broken_after_a_sign() -> None:
    told = Told()
    await told.add("weather", url="https://weather.example/mcp")
    uri = "demo://resource/static/document/architecture/overview/of/all/and/everything/there/is"
    told.record("weather", "list", list="resources", added=[{"uri": uri, "name": "is"}], total=1)
    async with opened(told, size=(80, 24)) as pilot:
        shown = await press(pilot, "3", "tab", "z") + await press(pilot)
        parts = [line.strip() for line in shown.splitlines() if line.strip() and line.strip() in uri]
        assert any(part.endswith("/") for part in parts), shown

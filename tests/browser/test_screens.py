"""Every screen as people see it: without faults that axe finds, dark and light, wide and narrow; pictures are kept."""

import sys
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.browser.inspecting import ROOT, Inspector, Look, command, inspecting, looking, program

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.thorough]

AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
NOTE = """---
status: draft
---
# Launch plan

## Milestones

- [ ] Freeze the API by Friday
- [ ] Docs reviewed by [[Ada]]

## Open questions

Who writes the migration guide?
"""
EDITED = NOTE.replace("[ ] Freeze the API by Friday", "[x] Freeze the API on 14 November").replace(
    "Who writes the migration guide?",
    "- [ ] Announce in [[Newsletter]] #launch\n\nThe migration guide is with [[Ada]]; the draft is due on Monday.",
)
URI = "vault%3A%2F%2Fnote%2FProjects%2FLaunch%2520plan.md"


@pytest.fixture(scope="module")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Inspector]:
    folder = tmp_path_factory.mktemp("screens")
    projects = folder / "vault" / "Projects"
    projects.mkdir(parents=True)
    (projects / "Launch plan.md").write_text(NOTE)
    for name in ("Ada", "Newsletter", "Inbox"):
        (folder / "vault" / f"{name}.md").write_text(f"# {name}\n\nSee [[Launch plan]]. #launch\n")
    servers = {
        "My vault": command(sys.executable, "-m", "tidings", "vault", str(folder / "vault")),
        "sample": program("sample", era="legacy"),
        "away": {"url": "http://127.0.0.1:9/mcp", "tidings": {"autoConnect": True}},
        "later": {"command": "later"},
    }
    async with inspecting(folder, servers) as one:
        yield one


@pytest.fixture(scope="module")
async def filled(browser: Browser, inspector: Inspector) -> Inspector:
    """An inspector in which something happened, so that no screen is empty."""
    async with looking(browser, inspector) as look:
        await _fill(look)
    return inspector


async def _fill(look: Look) -> None:
    await look.connected("My vault")
    await look.connected("sample")
    await look.screen("My vault", "resources", URI)
    await look("subscribe").click()
    await expect(look("subscription")).to_be_visible()
    (look.inspector.folder / "vault" / "Projects" / "Launch plan.md").write_text(EDITED)
    await look.screen("My vault", "live")
    await look.row("changes", "Launch plan").click()
    await expect(look("diff")).to_be_visible()
    await look.screen("sample", "tools", "speak")
    await look("field-text").get_by_role("textbox").fill("The night is cold")
    await look("call").click()
    await expect(look("request-status")).to_contain_text("done")
    await look.screen("sample", "tools", "greet")
    await look("call").click()
    await expect(look("questions")).to_be_visible()


SHOWN: dict[str, tuple[str, str]] = {
    "live": ("#/My%20vault/live", "diff"),
    "all": ("#/~/live", "diff"),
    "overview": ("#/My%20vault/overview", "screen-overview"),
    "tools": ("#/My%20vault/tools/search", "tool-form"),
    "call": ("#/sample/tools/speak", "result"),
    "resources": (f"#/My%20vault/resources/{URI}", "diff"),
    "prompts": ("#/My%20vault/prompts", "prompts"),
    "prompt": ("#/sample/prompts/review", "get-prompt"),
    "requests": ("#/sample/tasks", "requests"),
    "messages": ("#/sample/messages", "messages"),
    "logs": ("#/sample/logs", "logs"),
    "lost": ("#/away/overview", "error"),
    "servers": ("#/~/servers", "entry"),
    "new": ("#/~/servers/new", "server-form"),
    "import": ("#/~/servers/import", "import-text"),
    "sessions": ("#/~/sessions", "session"),
    "compared": ("#/~/sessions/1..1", "compared-request"),
    "settings": ("#/~/settings", "theme-dark"),
    "help": ("#/~/help", "screen-help"),
    "error": ("#/~/help/connection-lost", "markdown"),
}


async def _show(look: Look, name: str) -> None:
    address, testid = SHOWN[name]
    await look.go(address)
    await expect(look(testid).first).to_be_visible()
    match name:
        case "messages" | "requests" | "logs":
            await look.rows(name).first.click()
            await expect(look("json").or_(look("request-detail")).or_(look("text")).first).to_be_visible()
        case "help":
            await expect(look("screen-help").get_by_role("link").first).to_be_visible()
        case _:
            pass


async def violations(look: Look) -> list[str]:
    """What axe finds on the page as it is."""
    if not await look.page.evaluate("'axe' in window"):
        await look.page.add_script_tag(path=AXE)
    found: dict[str, Any] = await look.page.evaluate(
        "(rules) => axe.run(document, { runOnly: { type: 'tag', values: rules }, resultTypes: ['violations'] })", RULES
    )
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["dark", "light"])
async def test_every_screen_can_be_used_by_everybody(browser: Browser, filled: Inspector, scheme: str) -> None:
    async with looking(browser, filled, color_scheme=scheme, bypass_csp=True) as look:
        found: dict[str, list[str]] = {}
        for name in SHOWN:
            await _show(look, name)
            await look.picture(f"{name}-{scheme}")
            found[name] = await violations(look)
        await look.screen("sample", "live")
        await look("questions").click()
        await expect(look("question").first).to_be_visible()
        await look.picture(f"questions-{scheme}")
        found["questions"] = await violations(look)
        await look.page.keyboard.press("Control+k")
        await look("palette-input").fill("no such thing")
        await expect(look("palette-none")).to_have_text("No results.")
        found["palette, nothing found"] = await violations(look)
        await look("palette-input").fill("plan")
        await expect(look("palette").get_by_role("option").first).to_be_visible()
        await look.picture(f"palette-{scheme}")
        found["palette"] = await violations(look)
        await look.page.keyboard.press("Escape")
        await expect(look("palette")).to_have_count(0)
        await look.page.keyboard.press("?")
        await expect(look("shortcuts")).to_be_visible()
        await look.picture(f"shortcuts-{scheme}")
        found["shortcuts"] = await violations(look)
        assert {name: each for name, each in found.items() if each} == {}


CUT = """() => [...document.querySelectorAll('body *')].filter((one) => {
    const box = one.getBoundingClientRect(), scrolls = /auto|scroll/.test(getComputedStyle(one).overflowX)
    if (scrolls) return one.scrollWidth > one.clientWidth + 1 && !one.matches('pre, .box, .wide')
    return box.width > innerWidth + 1 && !one.closest('pre, .box, .wide, .tabs')
}).map((one) => `${one.tagName} ${one.className} ${one.scrollWidth}`)"""
"""What is wider than the page, or is scrolled sideways, apart from code and tables."""


@pytest.mark.parametrize("width", [360, 390])
async def test_every_screen_fits_a_phone(browser: Browser, filled: Inspector, width: int) -> None:
    async with looking(browser, filled, viewport={"width": width, "height": 720}) as look:
        await expect(look("server-state").or_(look("screen-servers")).first).to_be_attached()
        wide: dict[str, object] = {}
        for name in SHOWN:
            await look.go(SHOWN[name][0])
            await expect(look(SHOWN[name][1]).first).to_be_attached()
            await look.picture(f"{name}-narrow")
            if over := await look.overflow() or await look.page.evaluate(CUT):
                wide[name] = over
            if name == "call":  # The whole result can be read.
                text = look("result").get_by_text("said")
                hidden = (
                    "(one) => (({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)(one.closest('.blocks'))"
                )
                assert await text.evaluate(hidden) <= 1
        assert wide == {}

"""Signing in from the terminal app, to a real authorization server on loopback."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.client.authorizing import Authorization, agree, guarded
from tests.inspector.tui.inspector import inspector, screen, until
from tidings.inspector.catalog.entry import ServerEntry
from tidings.inspector.session import Session
from tidings.inspector.tui.app import InspectorApp
from tidings.inspector.tui.dialogs import SignInDialog

pytestmark = pytest.mark.anyio


@pytest.fixture
async def authorization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Authorization]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    authorization = Authorization()
    async with guarded(authorization):
        yield authorization


async def test_one_key_signs_in_and_another_signs_out(authorization: Authorization) -> None:
    async with Session() as session:
        await session.add(ServerEntry("guarded", url=authorization.url))
        app = InspectorApp(session)
        async with app.run_test(size=(120, 40)) as pilot:
            view = session.servers["guarded"].view
            await until(pilot, lambda: view.error is not None and view.error.code == "sign-in-needed")
            await until(pilot, lambda: "Sign in" in screen(pilot) and "S signs in" in screen(pilot))
            assert "connect(" not in screen(pilot)
            await pilot.press("S")
            await until(pilot, lambda: isinstance(app.screen, SignInDialog) and "Open: http" in screen(pilot))
            dialog = app.screen
            assert isinstance(dialog, SignInDialog)
            shown = dialog._steps.page.plain()
            assert all(step in shown for step in ("challenge", "metadata", "registration"))
            assert dialog._signing_in is not None
            await pilot.press("ctrl+y")
            assert app.clipboard == dialog._signing_in.address
            await asyncio.create_task(agree(dialog._signing_in.address))
            await until(pilot, lambda: view.state == "connected")
            assert not isinstance(app.screen, SignInDialog)
            await until(pilot, lambda: view.tools and "Sign in" not in screen(pilot).splitlines()[0])
            authorization.revoke_all()
            app.choose("guarded", "tools", "whoami")
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "Sign in" in screen(pilot).splitlines()[0])
            await pilot.press("S")
            await until(pilot, lambda: isinstance(app.screen, SignInDialog) and "Open: http" in screen(pilot))
            again = app.screen
            assert isinstance(again, SignInDialog)
            assert again._signing_in is not None
            await asyncio.create_task(agree(again._signing_in.address))
            await until(pilot, lambda: view.state == "connected" and "Sign in" not in screen(pilot).splitlines()[0])

            await pilot.press("O")
            await until(pilot, lambda: "Sign out" in screen(pilot))
            await pilot.press("enter")
            await until(pilot, lambda: "revocation" in authorization.asked)
            await until(pilot, lambda: view.error is not None and view.error.code == "sign-in-needed")
            assert inspector(pilot).is_running

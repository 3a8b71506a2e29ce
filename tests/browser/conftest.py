"""What the tests in a browser share: the built page, Chromium, and an inspector for each module."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser

import hatch_build
from tests.browser.inspecting import ROOT, chromium


@pytest.fixture(scope="session", autouse=True)
def built() -> Path:
    """The folder of the page, which is built if it is not the newest."""
    try:
        hatch_build.build(ROOT)
    except SystemExit as reason:
        pytest.fail(f"the inspector's page is not built, and cannot be: {reason}", pytrace=False)
    return ROOT / hatch_build.STATIC


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with chromium() as one:
        yield one

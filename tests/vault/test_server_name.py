"""What a vault server is called, as its clients see it."""

import os
from pathlib import Path

import anyio
import pytest

import tidings
from tidings.vault import VaultServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


async def called(tmp_path: Path, *folders: str, era: str = "auto", **options: str) -> tuple[str, str | None]:
    """Its name and its title, for somebody who is connected."""
    for folder in folders:
        (tmp_path / folder).mkdir()
    server = VaultServer(*(tmp_path / folder for folder in folders), cache=tmp_path / "cache", **options)  # type: ignore[arg-type]
    with anyio.fail_after(20):
        async with tidings.connect(server, era=era) as client:
            assert client.server_info is not None
            return client.server_info.name, client.server_info.title


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_it_is_called_as_its_folder(tmp_path: Path, era: str) -> None:
    assert await called(tmp_path, "My Notes", era=era) == ("My Notes", "My Notes (Obsidian vault)")


async def test_several_are_called_vaults(tmp_path: Path) -> None:
    assert await called(tmp_path, "Work", "Home") == ("vaults", "Work, Home (Obsidian vaults)")


async def test_it_is_called_as_it_is_told_to(tmp_path: Path) -> None:
    assert await called(tmp_path, "Notes", name="brain", title="A brain") == ("brain", "A brain")


def test_a_folder_whose_name_is_no_text_is_called_something(tmp_path: Path) -> None:
    folder = os.fsdecode(b"No\xfftes")
    try:
        (tmp_path / folder).mkdir()
    except OSError:
        pytest.skip("this system has no such names")
    server = VaultServer(tmp_path / folder, cache=tmp_path / "cache")
    assert (server.name, server.title) == ("No?tes", "No?tes (Obsidian vault)")

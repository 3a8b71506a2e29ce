"""However a vault is changed on the disk: in the end every watched resource is what a fresh look at the disk gives."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import tidings
from tests.vault.building import build
from tidings.client import LiveClient
from tidings.client.events import ResourceUpdated
from tidings.errors import ServerError
from tidings.server.families import ResourceMissing
from tidings.vault.files.paths import Vault, uri
from tidings.vault.index.index import Index
from tidings.vault.resources.render import render
from tidings.vault.server import VaultServer
from tidings.vault.view import IndexStatus, VaultView

pytestmark = pytest.mark.anyio

NAMES = [f"{first}{second}" for first in "ABCDEF" for second in ("lpha", "eta", "Ünïcode", " with space")]
FOLDERS = ["", "Projects", "Projects/Deep", "Log"]
WORDS = ["common", "rare", "#tag", "#tag/below", "#Other", "- [ ] task", "[[Alpha]]", "[[Beta]]", "# Heading", "text"]
WATCHED = [
    *(f"vault://{name}" for name in ("recent", "stats", "tags", "structure", "recent?limit=3", "stats?mode=full")),
    *(
        uri(kind, f"{folder}/{name}.md".lstrip("/"))
        for kind in ("note", "backlinks")
        for folder in FOLDERS
        for name in NAMES[:6]
    ),
    *(uri("folder", folder) for folder in FOLDERS),
    *(f"vault://tag/{tag}" for tag in ("tag", "tag/below", "other", "nobody")),
    *(f"vault://search/{query}" for query in ("common", "rare", "tag%3A%23other", "path%3ALog%20task", "-common")),
    "vault://note/Beta",
    "vault://daily/2026-01-31",
]


class Disk:
    """A person, a sync client and git, all at once."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._random = random.Random(seed)

    def change(self) -> None:
        action: Callable[[], None] = self._random.choices(
            [
                self._write,
                self._replace,
                self._append,
                self._delete,
                self._rename,
                self._move_folder,
                self._drop_folder,
            ],
            [40, 15, 15, 12, 14, 2, 2],
        )[0]
        with suppress(OSError):  # What was to be changed is not there, or something is in the way.
            action()

    def _path(self) -> Path:
        return self._root / self._random.choice(FOLDERS) / f"{self._random.choice(NAMES)}.md"

    def _text(self) -> str:
        return "\n".join(self._random.choices(WORDS, k=self._random.randrange(1, 8))) + "\n"

    def _write(self) -> None:
        path = self._path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._text())

    def _replace(self) -> None:
        path = self._path()
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.tmp")
        half.write_text(self._text())
        half.replace(path)

    def _append(self) -> None:
        with self._path().open("r+") as file:
            file.seek(0, 2)
            file.write(self._text())

    def _delete(self) -> None:
        self._path().unlink()

    def _rename(self) -> None:
        self._path().rename(self._path())

    def _move_folder(self) -> None:
        aside = self._root / "Aside"
        folder = self._root / self._random.choice(FOLDERS[1:])
        (folder if folder.exists() else aside).rename(aside if folder.exists() else folder)

    def _drop_folder(self) -> None:
        shutil.rmtree(self._root / self._random.choice([*FOLDERS[1:], "Aside"]))


class Copies:
    """What a client holds of some resources, because it reads them again whenever it is told to."""

    def __init__(self, client: LiveClient) -> None:
        self._client = client
        self._told = anyio.Event()
        self._stale: set[str] = set(WATCHED)
        self.texts: dict[str, str | None] = {}
        client.on(ResourceUpdated, self._hear)

    def _hear(self, event: ResourceUpdated) -> None:
        self._stale.add(event.uri)
        self._told.set()

    async def freshen(self) -> None:
        while self._stale:
            uri = self._stale.pop()
            try:
                self.texts[uri] = (await self._client.read_resource(uri)).text
            except ServerError:
                self.texts[uri] = None

    async def until(self, truth: dict[str, str | None]) -> None:
        """Freshen until all is as it has to be: nothing but being told leads there."""
        while True:
            await self.freshen()
            if self.texts == truth:
                return
            self._told = anyio.Event()
            if not self._stale:
                await self._told.wait()


def truth(root: Path) -> dict[str, str | None]:
    """What a fresh look at the disk gives."""
    vault = Vault([root])
    index = Index(vault, memory=True)
    assert build(vault, index) == []
    view = VaultView(index.queries, vault, IndexStatus("watching"))

    def text(uri: str) -> str | None:
        try:
            return render(view, uri).text
        except ResourceMissing:
            return None

    try:
        return {uri: text(uri) for uri in WATCHED}
    finally:
        index.close()


@pytest.mark.parametrize("changes", [300, pytest.param(2000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_after_many_changes_every_copy_is_what_a_fresh_look_gives(tmp_path: Path, era: str, changes: int) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    disk = Disk(root, seed=7)
    pauses = random.Random(8)
    server = VaultServer(root, cache=tmp_path / "cache")
    async with tidings.connect(server, era=era) as client:
        await client.subscribe(WATCHED)
        copies = Copies(client)
        for _ in range(changes):
            disk.change()
            if pauses.random() < 0.05:
                await anyio.sleep(pauses.random() * 0.03)  # The disk has its own pace.
                await copies.freshen()
        expected = truth(root)
        try:
            with anyio.fail_after(30):
                await copies.until(expected)
        except TimeoutError:
            assert copies.texts == expected
            raise


async def test_two_servers_on_one_vault_do_not_disturb_each_other(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    disk = Disk(root, seed=9)
    servers = [VaultServer(root, cache=tmp_path / "cache") for _ in range(2)]
    async with tidings.connect(servers[0]) as one, tidings.connect(servers[1]) as two:
        copies = []
        for client in (one, two):
            await client.subscribe(WATCHED)
            copies.append(Copies(client))
        for number in range(200):
            disk.change()
            if number % 40 == 0:
                path = f"Log/By tool {number}.md"
                await one.call_tool("write", {"path": path, "content": "rare"})
                await two.call_tool("append", {"path": path, "content": "common"})
        expected = truth(root)
        with anyio.fail_after(30):
            for each in copies:
                await each.until(expected)

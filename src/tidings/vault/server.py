"""`VaultServer`: the Obsidian vault server, to run or to embed; and its notifier."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError

from tidings._kit.bounded_json import as_dict, as_dicts
from tidings._kit.tasks import Shared
from tidings._kit.text import quoted
from tidings._version import __version__
from tidings.bus import Bus
from tidings.bus.local import LocalBus
from tidings.bus.memory import MemoryBus
from tidings.bus.urls import bus_from_url
from tidings.server import Notifier
from tidings.server.exact_calls import ExactServer
from tidings.server.families import BadAddress
from tidings.server.notify import EVERYTHING
from tidings.server.waking.changes import ChangedItem
from tidings.vault import prompts
from tidings.vault.change_detection import COMPUTED, FoundChanges, SubscribedResources, file_uri, is_file_uri
from tidings.vault.files.content import Texts
from tidings.vault.files.journal import WriteJournal
from tidings.vault.files.obsidian import PERIODS
from tidings.vault.files.paths import Vault
from tidings.vault.files.writer import VaultWriter
from tidings.vault.index.index import Index, IndexBlocked, IndexDamaged, folder_for, journal_in, log_in
from tidings.vault.library import PublishedStates, VaultLibrary
from tidings.vault.resources import listing, render
from tidings.vault.resources.addresses import FAMILY, parse_address
from tidings.vault.tools import lookup, tools
from tidings.vault.tools.results import NOTES_META, refusals_told

logger = logging.getLogger(__name__)

_READ_SECONDS = 10.0  # The wait for the first build, if a resource is not in the index yet.
_EVERYTHING = "vault://*"
_WRITING_ONE = ("write", "edit", "append")
_READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ENDLESS = (*COMPUTED, *(f"vault://{period}/" for period in PERIODS))

_INSTRUCTIONS = """\
Notes of an Obsidian vault. Find with `search` (Obsidian's syntax: words, "phrase", tag:#x, path:, [property:value]), \
read with `read`, change with `edit`, `append` or `write`: pass the version that a read gave as if_match. Every \
vault:// resource can be subscribed to."""


class VaultNotifier(Notifier):
    """Notifies the subscribers of a vault's resources.

    The server notices changes on disk automatically. These methods are for programs that know of a change from
    elsewhere. They notify all subscribers, even if the resource has not changed.
    """

    async def everything_changed(self) -> None:
        """Notifies all subscribers that anything may have changed."""
        await self._publish(EVERYTHING)

    async def recent_changed(self) -> None:
        """Notifies subscribers of the recently changed notes."""
        await self.resource_updated("vault://recent")

    async def stats_changed(self) -> None:
        """Notifies subscribers of the vault's statistics."""
        await self.resource_updated("vault://stats")

    async def tags_changed(self) -> None:
        """Notifies subscribers of the list of tags."""
        await self.resource_updated("vault://tags")


class VaultServer(ExactServer):
    """An Obsidian vault as a live MCP server.

    Args:
        paths: The vault's folder, or several. With several, each path begins with the name of its folder.
        name: The name that clients see. By default, the name of the vault's folder.
        read_only: Refuse every write.
        exclude: Globs of files to leave out.
        cache: The folder for the index, never in the vault. By default, one in the user's cache.
        bus: As for `LiveServer`.
        durable: Without a bus, keep the log of changes in a file next to the index. Waits then survive a restart, and
            all processes that serve the vault share the log.
        options: As for `LiveServer`.

    Raises:
        VaultUnusable: A folder cannot be served, or it contains the folder for the index.
    """

    notifier: ClassVar[type[Notifier]] = VaultNotifier
    channel: ClassVar[Sequence[str]] = ("vault://note/*", "vault://attachment/*")
    """The resources whose changes a channel reports: see `run_channel_async`."""

    def __init__(
        self,
        *paths: Path | str,
        name: str | None = None,
        read_only: bool = False,
        exclude: Sequence[str] = (),
        cache: Path | None = None,
        bus: Bus | str | None = None,
        durable: bool = False,
        **options: Any,
    ) -> None:
        self.vault = Vault([Path(path) for path in paths], exclude=exclude)
        self.read_only = read_only
        folder = folder_for(self.vault, cache)
        self.texts = Texts()
        if bus is None:
            bus = LocalBus(log_in(folder, self.vault), edition=f"{__version__} {read_only}") if durable else MemoryBus()
        bus = bus_from_url(bus) if isinstance(bus, str) else bus
        self._bus = bus
        self.library = VaultLibrary(
            self.vault,
            VaultWriter(
                self.vault, read_only=read_only, texts=self.texts, journal=WriteJournal(journal_in(folder, self.vault))
            ),
            open_index=lambda: Index(self.vault, folder),
            publish=self._publish,
            # A log in memory begins with this process; others are older.
            interest=SubscribedResources(outlived=not isinstance(bus, MemoryBus)),
            published=PublishedStates(bus if isinstance(bus, LocalBus) else None),
            on_lost=self._lost,
            expect=self._expect,
            deliver_here=lambda uris, listed: self._live.deliver_here(uris, listed=listed),
        )
        # A name on the disk need not be text.
        folders = [mount.root.name.encode(errors="replace").decode() or "vault" for mount in self.vault.mounts]
        several = len(folders) > 1
        title = f"{', '.join(folders)} (Obsidian vault{'s' if several else ''})"
        options = {"title": title, "instructions": _INSTRUCTIONS, "version": __version__} | options
        lifespan = Shared(self.library.running).use
        super().__init__(name or ("vaults" if several else folders[0]), bus=bus, lifespan=lifespan, **options)
        self.on_first_subscriber(_EVERYTHING)(self.library.begin_interest)
        self.on_last_subscriber(_EVERYTHING)(self.library.interest.end)
        self.provide(_VaultResources(self.library))
        self.completion()(self._complete)
        tools.register(self, self.library, self.texts, read_only=read_only)
        changes = self._live.changes_tool(is_file_uri, self._describe)
        self.add_documented_tool(changes, "See what changed since", _READS, refusals_told)
        prompts.register(self, self.library)

    @property
    def notify(self) -> VaultNotifier:
        """Notifies subscribers. Changes on disk are noticed without it."""
        return cast("VaultNotifier", super().notify)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Calls a tool, as `MCPServer.call_tool`. Raises `ToolError` with a message for the caller if it refuses."""
        if self.read_only and name in tools.WRITING and name not in self.tools_by_name:
            raise ToolError(f"This vault is read-only: there is no tool {name!r}. You can only search and read it.")
        return await super().call_tool(name, arguments, context)

    async def run_channel_async(self) -> None:
        """Serves over standard input and output, and sends changes as messages to a host with channels."""
        await self._live.run_channel_async(self.channel, self._describe, self.library.settled)

    def shown_resources(self, tool: str, result: dict[str, Any]) -> list[str]:
        """Returns the URIs of the notes that a tool has read or written."""
        data: dict[str, Any] = result.get("structuredContent") or {}
        notes = as_dicts(as_dict(result.get("_meta")).get(NOTES_META))
        read = [data] if tool in _WRITING_ONE else notes
        return [file_uri(note["path"]) for note in read if "path" in note]

    async def _publish(self, found: FoundChanges) -> None:
        await self._announce([*found.states], listed=found.listed, changed_at=found.changed_at, before=found.before)

    def _expect(self, found: FoundChanges) -> None:
        for each in found.before.keys() & found.states.keys():
            self.notify.comes(each, before=found.before[each])

    async def _lost(self) -> None:
        await self.notify.everything_changed()

    async def _describe(self, uris: Sequence[str]) -> list[ChangedItem]:
        return await self.library.ask(lambda view: [lookup.changed_file(view, uri) for uri in uris])

    async def _complete(
        self, ref: listing.Reference, argument: types.CompletionArgument, context: types.CompletionContext | None
    ) -> types.Completion:
        return await self.library.ask(lambda view: listing.complete(view, ref, argument, context))


@dataclass(frozen=True)
class _VaultResources:
    """The vault's resources, as a `ResourceProvider`."""

    library: VaultLibrary

    def owns(self, uri: str) -> bool:
        if not uri.lower().startswith(FAMILY.prefix):
            return False
        if uri.endswith("*"):
            # There are endless searches and dates, so that a prefix of them cannot be followed.
            if uri.startswith(_ENDLESS):
                raise BadAddress(f"{quoted(uri)} has no end. Subscribe to one search or one date.")
            return FAMILY.covers(uri) or bool(FAMILY.split(uri.removesuffix("*")))
        address = parse_address(uri)
        if FAMILY[address.kind].argument == "{+path}" and address.argument:
            vault, path = self.library.vault, address.argument
            if not vault.visible(path):
                raise BadAddress(f"{quoted(path)} is not served: it is hidden or excluded.")
        return True

    def templates(self) -> Sequence[types.ResourceTemplate]:
        return FAMILY.templates()

    async def page(self, cursor: str | None) -> tuple[Sequence[types.Resource], str | None]:
        return await self.library.ask(lambda view: listing.page(view, cursor))

    async def read(self, uri: str) -> Sequence[ReadResourceContents]:
        ask = partial(self.library.ask, lambda view: render.render(view, uri), search=uri.startswith(COMPUTED))
        try:
            try:
                rendered = await ask()
            except LookupError:
                if self.library.status.phase != "indexing":
                    raise
                # It may exist, and not be indexed yet.
                with anyio.move_on_after(_READ_SECONDS):
                    await self.library.settled()
                rendered = await ask()
        except LookupError as error:
            raise ResourceNotFoundError(str(error)) from error
        except (ValueError, OSError, IndexBlocked, IndexDamaged) as error:
            raise ResourceError(str(error)) from error
        content = rendered.data if rendered.text is None else rendered.text
        return [ReadResourceContents(content=content or b"", mime_type=rendered.mime_type)]

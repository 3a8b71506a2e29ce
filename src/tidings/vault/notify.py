"""`server.notify` of a vault server: what a program that embeds one says itself."""

from tidings.server import Notifier
from tidings.vault.files.paths import uri


class VaultNotifier(Notifier):
    """Triggers for the resources of a vault.

    The server sees by itself what changes on the disk, and tells those whose resources are different. These are for
    programs that know of a change from elsewhere; they tell everyone who listens, different or not.
    """

    async def recent_changed(self) -> None:
        """The list of recently changed notes is different now."""
        await self.resource_updated("vault://recent")

    async def stats_changed(self) -> None:
        """The vault's statistics are different now."""
        await self.resource_updated("vault://stats")

    async def tags_changed(self) -> None:
        """The list of tags is different now."""
        await self.resource_updated("vault://tags")

    async def structure_changed(self) -> None:
        """The tree of folders is different now."""
        await self.resource_updated("vault://structure")

    async def note_changed(self, path: str) -> None:
        """The note at this path is different now."""
        await self.resource_updated(uri("note", path))

    async def folder_changed(self, path: str) -> None:
        """What this folder holds is different now."""
        await self.resource_updated(uri("folder", path))

    async def tag_changed(self, tag: str) -> None:
        """Other notes have this tag now."""
        await self.resource_updated(uri("tag", tag.lstrip("#")))

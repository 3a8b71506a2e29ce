"""What the app's own settings keep out of searches."""

from collections.abc import Callable

from tidings.vault.files.obsidian import Settings
from tidings.vault.files.paths import Vault


def hidden_from_search(vault: Vault) -> Callable[[str], bool] | None:
    """Tells of a path whether it is kept out of searches; None if nothing is."""
    settings = {mount: Settings.read(mount.root) for mount in vault.mounts}
    if not any(each.ignored for each in settings.values()):
        return None

    def hidden(path: str) -> bool:
        mount, inner = vault.split(path)
        return settings[mount].ignores(inner)

    return hidden

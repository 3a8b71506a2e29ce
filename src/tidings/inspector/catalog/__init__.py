"""The catalog: the servers that a user knows, in a file that other programs understand.

    catalog = Catalog(user_catalog(os.environ, sys.platform, Path.home()))
    catalog.add(ServerEntry("weather", command="uvx", args=("weather",)))
    resolve("weather", catalog).connect_arguments(os.environ)

The file is `{"mcpServers": {name: entry}}` (see `catalog_entry`), readable for its owner alone. `read_only` is for
files that belong to others: any file with `mcpServers` or `servers` in it is such a catalog.

| room | what is in it |
|---|---|
| `catalog_store` | `Catalog`: add, edit, clone, remove, reorder, import, export |
| `catalog_entry`, `catalog_raw`, `catalog_secrets`, `catalog_masks` | `ServerEntry`, and what of it is never shown |
| `catalog_file`, `catalog_text` | the file: limits, lock, atomic writing; JSON with comments |
| `catalog_folders` | where programs keep such files |
| `catalog_clients` | `find_clients`: the files of Claude Desktop, Claude Code, VS Code and Cursor |
| `catalog_export` | the servers for other programs, without secrets unless they are wanted |
| `catalog_targets` | `resolve`: what a user types to mean a server |

May import: `client` (without the SDK), `errors`.
"""

from tidings.inspector.catalog.catalog import Catalog, Export, ImportedServers, Listing, exported
from tidings.inspector.catalog.clients import FoundClient, find_clients
from tidings.inspector.catalog.entry import LOG_LEVELS, EntryTimeouts, ServerEntry, keep_secrets
from tidings.inspector.catalog.file import CatalogError, user_catalog
from tidings.inspector.catalog.targets import resolve

__all__ = [
    "LOG_LEVELS",
    "Catalog",
    "CatalogError",
    "EntryTimeouts",
    "Export",
    "FoundClient",
    "ImportedServers",
    "Listing",
    "ServerEntry",
    "exported",
    "find_clients",
    "keep_secrets",
    "resolve",
    "user_catalog",
]

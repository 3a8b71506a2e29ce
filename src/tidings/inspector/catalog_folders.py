"""Where programs keep the settings of a user, and so the catalog."""

from collections.abc import Mapping
from pathlib import Path


def settings_folder(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """The folder in which programs have folders of their own, on a system named as `sys.platform` does."""
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    stated = environ.get("XDG_CONFIG_HOME", "")
    return Path(stated) if stated.startswith("/") else home / ".config"


def user_catalog(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Where a user's catalog is."""
    return settings_folder(environ, platform, home) / "tidings" / "servers.json"

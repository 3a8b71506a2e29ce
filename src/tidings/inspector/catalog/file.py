"""The catalog's file, and where it is.

Several programs read and write it. A writer holds a lock, reads the file again, changes only what it has to, and
replaces the file in one step. A program that does not use the lock is noticed: if it has changed the file meanwhile,
the change is made again. The file is readable for its owner alone, because it may hold tokens.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from tidings._kit import files
from tidings._kit.bounded_json import NotJson, parse_with_comments

LARGEST: Final = 8 * 2**20
_TRIES: Final = 10
_LOCK_SECONDS: Final = 10.0

T = TypeVar("T")


class CatalogError(ValueError):
    """A catalog cannot be read or changed. The message names the file, the reason and the remedy."""


class CatalogFile(NamedTuple):
    """A file that was read. One that does not exist has an empty object and no state."""

    document: dict[str, Any]
    state: os.stat_result | None
    is_plain: bool  # It is plain JSON, without comments.


def read(path: Path) -> CatalogFile:
    """Reads the object in the file. Raises `CatalogError` if it cannot be read."""
    try:
        data, state = files.read_file(path, LARGEST)
        text = data.decode("utf-8-sig")
        parsed: tuple[Any, bool] = parse_with_comments(text) if text.strip() else ({}, True)
    except FileNotFoundError:
        return CatalogFile({}, None, True)
    except (IsADirectoryError, files.NotAFile) as error:
        kind = "a folder" if isinstance(error, IsADirectoryError) else "not a file"
        raise CatalogError(f"{path} is {kind}. Give the path of a JSON file.") from None
    except OverflowError:
        raise CatalogError(f"{path} has more than {LARGEST // 2**20} MB: this is not a list of servers.") from None
    except OSError as error:
        raise CatalogError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CatalogError(f"{path} is not text in UTF-8.") from None
    except NotJson as error:
        raise CatalogError(f"{path} is not JSON: {error}.") from None
    document, is_plain = parsed
    if not isinstance(document, dict):
        raise CatalogError(f'{path} must contain an object, as in {{"mcpServers": {{}}}}.')
    return CatalogFile(cast("dict[str, Any]", document), state, is_plain)


def change(path: Path, edit: Callable[[dict[str, Any]], T]) -> T:
    """Lets `edit` change the object in the file, writes it, and returns the result. Raises `CatalogError`."""
    try:
        target = Path(os.path.realpath(path))  # A link stays a link.
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.locked(target.with_name(f".{target.name}.lock"), _LOCK_SECONDS):
            for _ in range(_TRIES):
                document, state, is_plain = read(target)
                if not is_plain:
                    lost = "has comments or trailing commas, which would be lost"
                    raise CatalogError(f"{path} {lost}. Remove them, or edit it by hand.")
                result = edit(document)
                if files.replace_file(target, _encoded(document), state):
                    return result
    except files.Locked:
        message = f"Another program has been writing {path} for {_LOCK_SECONDS:g} s. Try again later."
        raise CatalogError(message) from None
    except OSError as error:
        raise CatalogError(f"{path} cannot be written: {error.strerror or error}.") from None
    except RecursionError:
        raise CatalogError(f"{path} is nested too deeply to be written.") from None
    raise CatalogError(f"Another program keeps changing {path}. Try again when it has finished.")


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # A lone surrogate: JSON can express it, UTF-8 cannot.
        return json.dumps(document, indent=2).encode() + b"\n"


def section_of(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Returns the servers in a document by name. Raises `CatalogError` if they are not an object."""
    for name in ("mcpServers", "servers"):
        if name in document:
            if not isinstance(document[name], dict):
                raise CatalogError(f"{name} in {path} must be an object of servers by name.")
            return cast("dict[str, Any]", document[name])
    return {}


def settings_folder(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Returns the folder of all programs' settings, on a system named as in `sys.platform`."""
    if platform == "win32":
        return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    if platform == "darwin":
        return home / "Library" / "Application Support"
    stated = environ.get("XDG_CONFIG_HOME", "")
    return Path(stated) if stated.startswith("/") else home / ".config"


def user_catalog(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Returns the path of a user's catalog."""
    return settings_folder(environ, platform, home) / "tidings" / "servers.json"

"""A file that several programs read and write: read whole within limits, written at once or not at all.

Whoever writes holds a lock, reads the file again, changes what it wants changed and nothing else, and puts the new file
in the old one's place. A program that knows nothing of the lock is noticed: if the file is another one by then, all
begins anew. The file is readable for its owner alone: it holds tokens.

Where programs keep the settings of a user, and so the catalog.
"""

import contextlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tidings._kit.bounded_json import NotJson, parse_with_comments

LARGEST: Final = 8 * 2**20
_TRIES: Final = 10
_PATIENCE: Final = 10.0
"""Seconds to wait for another program that writes."""

T = TypeVar("T")


class CatalogError(ValueError):
    """A catalog cannot be read or changed. Says which, why, and what to do."""


@dataclass(frozen=True)
class CatalogText:
    """What a file had in it when it was read."""

    document: dict[str, Any]
    stamp: tuple[int, ...] | None
    """What tells this state of the file from another; None: there is no file."""
    is_plain: bool = True
    """Whether nothing is lost when it is written as JSON."""


def read(path: Path) -> CatalogText:
    """The object in the file; an empty one if there is no file.

    Raises:
        CatalogError: It cannot be read, or has something else in it.
    """
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            what = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a file"
            raise CatalogError(f"{path} is {what}. Give the path of a JSON file.")
        with path.open("rb") as opened:
            stamp = _stamp(os.fstat(opened.fileno()))
            data = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return CatalogText({}, None)
    except OSError as error:
        raise CatalogError(f"{path} cannot be read: {error.strerror or error}.") from None
    if len(data) > LARGEST:
        raise CatalogError(f"{path} has more than {LARGEST // 2**20} MB: this is no list of servers.")
    try:
        text = data.decode("utf-8-sig")
        parsed: tuple[Any, bool] = parse_with_comments(text) if text.strip() else ({}, True)
    except UnicodeDecodeError:
        raise CatalogError(f"{path} is not a text in UTF-8.") from None
    except NotJson as error:
        raise CatalogError(f"{path} is not JSON: {error}.") from None
    document, is_plain = parsed
    if not isinstance(document, dict):
        raise CatalogError(f'{path} must have an object in it, as in {{"mcpServers": {{}}}}.')
    return CatalogText(cast("dict[str, Any]", document), stamp, is_plain)


def change(path: Path, edit: Callable[[dict[str, Any]], T]) -> T:
    """Let `edit` change the object in the file, in place, and write it; what `edit` returns is returned.

    Raises:
        CatalogError: It cannot be read or written. The file is as it was.
    """
    try:
        target = Path(os.path.realpath(path))  # A link stays one.
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(target):
            for _ in range(_TRIES):
                content = read(target)
                if not content.is_plain:
                    raise CatalogError(
                        f"{path} has comments or commas that JSON does not allow; writing would lose them."
                    )
                result = edit(content.document)
                if _replace(target, content):
                    return result
    except OSError as error:
        raise CatalogError(f"{path} cannot be written: {error.strerror or error}.") from None
    except RecursionError:
        raise CatalogError(f"{path} is nested too deeply to be written.") from None
    raise CatalogError(f"{path} is being changed by another program all the time. Try again when that is done.")


def _replace(path: Path, content: CatalogText) -> bool:
    """Whether the file was replaced; not if somebody else changed it since it was read."""
    try:
        data = json.dumps(content.document, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # Half a character, which UTF-8 cannot say, but JSON can.
        data = json.dumps(content.document, indent=2).encode()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")  # 0600
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        if _current(path) != content.stamp:
            return False
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    return True


def _current(path: Path) -> tuple[int, ...] | None:
    try:
        return _stamp(path.stat())
    except FileNotFoundError:
        return None


def _stamp(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    """Held by one at a time, of all threads and processes. Let go when the process ends, however it ends."""
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        ends_at = time.monotonic() + _PATIENCE
        while not _try_lock(handle):
            if time.monotonic() > ends_at:
                raise CatalogError(f"Another program has been writing {path} for {_PATIENCE:g} s. Try again later.")
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if os.name == "nt":  # pragma: no cover - Windows
            import msvcrt  # noqa: PLC0415 - there is none elsewhere

            cast("Any", msvcrt).locking(handle, cast("Any", msvcrt).LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - there is none on Windows

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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

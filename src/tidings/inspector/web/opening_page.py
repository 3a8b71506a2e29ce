"""Opening the page in a browser, without anybody else on this machine learning the token.

What a program is started with can be seen by every user. So the browser is given a file that only its user can read,
which leads on to the page; it is deleted once the page was entered, or after a while.
"""

import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def can_open(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Whether there is a screen to open a browser on: one in the terminal would be in the way."""
    return platform in ("darwin", "win32") or bool(
        environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("BROWSER")
    )


def doorway(url: str) -> Path:
    """A file that leads to the page, readable for its user alone."""
    handle, name = tempfile.mkstemp(prefix="tidings-", suffix=".html")  # 0600
    address = html.escape(url, quote=True)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<title>Tidings</title><meta http-equiv="refresh" content="0;url={address}">'
            f'<p><a href="{address}">Open the inspector</a></p>\n'
        )
    return Path(name)


def open_page(door: Path) -> bool:
    """Have the user's browser open it; returns whether one was found. May take a moment."""
    try:
        return webbrowser.open(door.as_uri())
    except (webbrowser.Error, OSError):
        return False


def close_door(door: Path) -> None:
    """Delete it."""
    with suppress(OSError):
        door.unlink()

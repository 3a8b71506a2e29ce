"""What the web server needs beyond the core, and how to get it.

May import: nothing of Tidings.
"""

from collections.abc import Iterable

PACKAGES = ("lxml", "pypdfium2", "protego", "httpcore2", "h2", "brotli", "idna")
"""What the extra `web` installs, by the names they are imported by."""


def packages_missing(names: Iterable[str], *, extra: str = "web") -> str:
    """That these packages are needed, and how to get them."""
    how = f'pip install "tidings[{extra}]" (in a clone: pip install ".[{extra}]")'
    return f"The web server needs more packages ({', '.join(names)}): {how}"

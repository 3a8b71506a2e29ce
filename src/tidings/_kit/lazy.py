"""Names imported at first use, and the words for optional packages that are missing.

This keeps `import tidings`, the one-shot commands and worker processes quick: a package names its parts, and a part is
imported only when somebody asks for it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    *,
    extra: Collection[str] = (),
    missing: Callable[[list[str]], str] = ", ".join,
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package with names in `homes`. `missing` words what is missing of an `extra`."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name not in extra:
                raise
            raise ImportError(missing([error.name]), name=error.name) from error

    return get


def not_installed(packages: Iterable[str]) -> list[str]:
    """Returns those of `packages` that cannot be imported. Imports none of them."""
    from importlib.util import find_spec  # noqa: PLC0415 - `import tidings` does without

    return [name for name in packages if find_spec(name) is None]


def packages_missing(needed_by: str, names: Iterable[str], *, extra: str) -> str:
    """Returns the message that `needed_by` ("The web server") needs these packages, and how to install them."""
    how = f'pip install "tidings[{extra}]" (in a clone: pip install ".[{extra}]")'
    return f"{needed_by} needs more packages ({', '.join(names)}): {how}"

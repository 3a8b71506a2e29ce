"""Names of a package that are imported when they are first used, so that `import` and the one-shot commands are quick.

May import: nothing of Tidings.
"""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    *,
    extra: Collection[str] = (),
    missing: Callable[[list[str]], str] = ", ".join,
) -> Callable[[str], Any]:
    """The `__getattr__` of `package`.

    Args:
        package: Its name.
        homes: Its names, each with the module that it is imported from.
        extra: The packages that an extra brings.
        missing: What to say when some of these are not there: `ImportError` says it.
    """

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

"""Names imported at first use, so that `import tidings` is quick, and the words for packages that are missing."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[3]  # Of a clone, if this is one.


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
    return f"{needed_by} needs more packages ({', '.join(names)}): {install_command(extra)}"


def install_command(extra: str = "") -> str:
    """Returns the command that installs an extra, or without one the package, from the same source as this one."""
    # `import tidings` does without these.
    import shlex  # noqa: PLC0415
    from importlib.util import find_spec  # noqa: PLC0415

    python, source = shlex.quote(sys.executable), install_source(extra)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    editable = "-e " if source.removesuffix(f"[{extra}]") == str(ROOT) else ""
    return f"{pip} {editable}{shlex.quote(source)}"


def install_source(extra: str = "") -> str:
    """Returns the folder, file or name from which this package was installed, with an extra in brackets."""
    # `import tidings` does without these.
    import json  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415
    from urllib.parse import urlsplit  # noqa: PLC0415
    from urllib.request import url2pathname  # noqa: PLC0415

    brackets = f"[{extra}]" if extra else ""
    if (ROOT / "pyproject.toml").is_file() and (ROOT / "ui").is_dir():
        return f"{ROOT}{brackets}"
    noted: dict[str, Any]
    try:
        noted = json.loads(distribution("tidings").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        noted = {}
    url: str = noted.get("url", "")
    if url.startswith("file:"):
        return f"{url2pathname(urlsplit(url).path)}{brackets}"
    if vcs := noted.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    # Without a URL, it came from an index, so the index has it. An index that does not have it may get it from anyone.
    return f"tidings{brackets} @ {url}" if url else f"tidings{brackets}"

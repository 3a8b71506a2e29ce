"""The doctor on what is installed: Python, the packages that Tidings needs, those it can use, a browser, the page."""

import importlib.metadata
import json
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import tidings
from tidings.cli.doctor_checks import Finding, Place, tidied

OLDEST: Final = (3, 11)
PURPOSES: Final = {
    "nats": "many replicas with NATS between them",
    "redis": "many replicas with Redis between them",
    "vault": "`tidings vault`",
    "web": "`tidings web`",
    "render": "`tidings web --render`, which needs Chromium besides",
    "inspector": "`tidings tui`, and answers in YAML",
}
"""What each extra is for. `all` is all of them but `render`."""
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_REQUIREMENT: Final = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?:;(?P<marker>.*))?")
_ROOT: Final = Path(tidings.__file__).parents[2]


def python(_: Place) -> Iterator[Finding]:
    """The interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST:
        cure = "Install a newer one, and Tidings with it."
        yield Finding("Python", "wrong", f"{version}, and 3.11 is the oldest that will do.", cure)
    else:
        yield Finding("Python", "ok", f"{version} ({sys.executable}).")


def packages(_: Place) -> Iterator[Finding]:
    """What Tidings cannot do without, and each of the extras."""
    try:
        required = importlib.metadata.requires("tidings") or []
    except importlib.metadata.PackageNotFoundError:
        cure = f"Install it: {_install('')}"
        yield Finding("tidings", "look", f"{tidings.__version__}, not installed: run from {_ROOT}.", cure)
        return
    missing = list(_missing(required, None))
    if missing:
        yield Finding("tidings", "wrong", f"{tidings.__version__}, without {', '.join(missing)}.", _install(""))
    else:
        yield Finding("tidings", "ok", f"{tidings.__version__}, with mcp {importlib.metadata.version('mcp')}.")
    for extra, purpose in PURPOSES.items():
        missing = list(_missing(required, extra))
        if missing:
            words = f"not installed ({', '.join(missing)}). It is for {purpose}."
            yield Finding(f"extra {extra}", "look", words, _install(extra))
        else:
            yield Finding(f"extra {extra}", "ok", f"installed, for {purpose}.")


def on_the_path(place: Place) -> Iterator[Finding]:
    """Whether a shell finds the command, and this one."""
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("tidings", path=place.environ.get("PATH", ""))
    if found is None:
        words = "not on the PATH: AI clients are given its whole path, but a shell does not find it."
        yield Finding("tidings command", "look", words, f'export PATH="{scripts}:$PATH"')
    elif Path(found).parent.resolve() != scripts.resolve():
        words = f"{found} is what a shell finds, and another one than this ({scripts / 'tidings'})."
        yield Finding("tidings command", "look", words, "If that is not on purpose, uninstall one of them.")
    else:
        yield Finding("tidings command", "ok", f"{found}.")


def chromium(place: Place) -> Iterator[Finding]:
    """A browser for rendered pages: the system's, or one that Playwright brought."""
    found = next(filter(None, (shutil.which(name, path=place.environ.get("PATH", "")) for name in _NAMES)), None)
    if found is None:
        found = next(map(str, _of_playwright(place)), None)
    if found is not None:
        yield Finding("Chromium", "ok", f"{found}, for `tidings web --render` and the tests of the page.")
        return
    words = "not found. It is for `tidings web --render`, and for the tests of the page."
    yield Finding("Chromium", "look", words, "apt-get install chromium, or: playwright install chromium")


def _of_playwright(place: Place) -> Iterator[Path]:
    caches = {"darwin": "Library/Caches", "win32": "AppData/Local"}
    folder = Path(
        place.environ.get("PLAYWRIGHT_BROWSERS_PATH")
        or place.home / caches.get(place.platform, ".cache") / "ms-playwright"
    )
    for program in ("chrome", "chrome.exe", "Chromium", "Google Chrome for Testing", "chrome-headless-shell"):
        yield from sorted(folder.glob(f"chromium*/**/{program}"))


def page(place: Place) -> Iterator[Finding]:
    """The inspector's page, which is built and not in git."""
    static = Path(tidings.__file__).parent / "inspector" / "static"
    if (static / "index.html").is_file():
        yield Finding("inspector's page", "ok", "built.")
        return
    words = "not built: `tidings inspect` has nothing to show. `tidings tui` needs none."
    in_clone = f"make ui (in {tidied(_ROOT, place)})"
    yield Finding("inspector's page", "look", words, in_clone if _is_clone() else "Install Tidings anew.")


def _is_clone() -> bool:
    return (_ROOT / "pyproject.toml").is_file() and (_ROOT / "ui").is_dir()


def _install(extra: str) -> str:
    """The command that installs this extra, or what there is without any: here, and from where this Tidings is."""
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    brackets = f"[{extra}]" if extra else ""
    if _is_clone():
        return f"{pip} -e {shlex.quote(f'{_ROOT}{brackets}')}"
    return f"{pip} {shlex.quote(f'{_source()}{brackets}')}"


def _source() -> str:
    """What this Tidings was installed from: a folder or a file, if that is still there, else its name."""
    try:
        noted = importlib.metadata.distribution("tidings").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        noted = None
    url = urlsplit(json.loads(noted)["url"] if noted else "")
    path = Path(url2pathname(url.path))
    return str(path) if url.scheme == "file" and path.exists() else "tidings"


def _missing(required: list[str], extra: str | None) -> Iterator[str]:
    """Those of the requirements, of one extra or of none, that are not there or too old."""
    for text in required:
        parts = _REQUIREMENT.fullmatch(text.replace(" ", ""))
        if parts is None:
            continue
        marker = parts["marker"] or ""
        of = re.search(r"extra==['\"]([\w-]+)['\"]", marker)
        if (of[1] if of else None) != extra or parts["name"] == "tidings":
            continue
        try:
            version = importlib.metadata.version(parts["name"])
        except importlib.metadata.PackageNotFoundError:
            yield parts["name"]
            continue
        least = re.search(r">=([\d.]+)", parts["bounds"])
        if least and _numbers(version) < _numbers(least[1]):
            yield f"{parts['name']} {least[1]} or newer, here is {version}"


def _numbers(version: str) -> tuple[int, ...]:
    """A version to be compared; what follows its numbers does not count."""
    numbers = re.match(r"[\d.]*", version)
    return tuple(int(part) for part in (numbers[0] if numbers else "").split(".") if part)

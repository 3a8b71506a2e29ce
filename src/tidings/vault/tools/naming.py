"""The file that an agent means by a path.

Reading takes the best of several matches, and says so. Writing refuses an ambiguous path.
"""

import re

from tidings._kit.text import quoted
from tidings.server.families import ResourceMissing
from tidings.vault.files.paths import BadPath, path_of
from tidings.vault.notes.model import key
from tidings.vault.view import VaultView, standing

_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")


def plain(path: str) -> str:
    """Returns the path in a wikilink or in the URI of a resource. Raises `BadPath` if it is empty, or another URI."""
    text = path.strip()
    if text.startswith("vault://"):
        text = path_of(text)
    elif link := re.fullmatch(r"!?\[\[([^\]|#]+)[^\]]*\]\]", text):
        text = link[1].strip()
    if not text:
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    return text


def meant(view: VaultView, path: str) -> list[str]:
    """Returns the files for a path, its end or its bare name, the best first. Raises `ResourceMissing`."""
    path = plain(path)
    if found := view.queries.find(path):
        return found
    # What the index does not know yet may be there all the same.
    for candidate in (path, f"{path}.md"):
        if view.vault.locate(candidate).is_file():
            return [candidate]
    near = view.queries.near(path)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Find it with `search` or `structure`."
    raise ResourceMissing(" ".join(filter(None, [f"There is no file {quoted(path)}.", hint, standing(view.status)])))


def surely(view: VaultView, path: str) -> str:
    """Returns the only file that a path can mean. Raises `BadPath` if there are several, and `ResourceMissing`."""
    found = meant(view, path)
    if len(found) > 1:
        several = ", ".join(map(repr, found))
        raise BadPath(f"{quoted(path)} could be one of several: {several}.", "Give the whole path.")
    return found[0]


def surely_any(view: VaultView, path: str) -> str:
    """Returns the only file or folder that a path can mean. Raises `BadPath` for several, and `ResourceMissing`."""
    text = plain(path).rstrip("/")
    if text and not view.queries.file(text) and view.vault.locate(text).is_dir():
        return text
    return surely(view, text)


def to_create(view: VaultView, path: str) -> str:
    """Returns the path of a file that may not exist yet: a note, if its name has no other extension.

    An existing file whose name differs only by case is meant: no vault should have both.
    """
    text = plain(path).removeprefix("./")
    name = text.rpartition("/")[2]
    at = name.rfind(".")
    if name and not (at > 0 and _EXTENSION.fullmatch(name[at:])):
        text = f"{text}.md"
    there = view.queries.find(text)
    if there and key(there[0]) == key(text):
        return there[0]
    folder, slash, name = text.rpartition("/")
    listing = view.queries.folder(folder) if folder else None
    return f"{listing.path}/{name}" if listing else f"{folder}{slash}{name}"


def to_add_to(view: VaultView, path: str, *, create: bool) -> str:
    """Returns the only file that a path can mean, or a new one if `create` allows it. See `surely` for the errors."""
    try:
        return surely(view, path)
    except ResourceMissing as error:
        if create:
            return to_create(view, path)
        raise ResourceMissing(f"{error} Or set create=true.") from None


def destination(view: VaultView, source: str, to: str) -> str:
    """Returns the destination of a move: into a folder under its own name, or a path with its own extension."""
    name = source.rpartition("/")[2]
    wanted = plain(to)
    text = wanted.rstrip("/")
    if text != wanted or (text != source and view.vault.locate(text).is_dir()):
        return f"{text}/{name}" if text else name
    if view.vault.locate(source).is_dir():
        return text
    extension = name[at:] if (at := name.rfind(".")) > 0 else ""
    return text if text.lower().endswith(extension.lower()) else f"{text}{extension}"

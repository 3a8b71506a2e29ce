"""Which file an agent means by a path: as people write it, and refused where it could be another.

Reading takes the best of several, and says so. Writing wants to know exactly.
"""

import re
from typing import NamedTuple

from tidings._kit.text import quoted
from tidings.vault.files.paths import BadPath, path_of
from tidings.vault.notes.model import key
from tidings.vault.resources.shapes import NotFound
from tidings.vault.view import VaultView, standing

_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")


class Meant(NamedTuple):
    """A file that is there."""

    path: str
    also: tuple[str, ...] = ()
    """Others that the same words could mean."""


def plain(path: str) -> str:
    """A path as agents copy it from elsewhere: from a link, or from the URI of a resource.

    Raises:
        BadPath: It is empty, or an URI of something else.
    """
    text = path.strip()
    if text.startswith("vault://"):
        text = path_of(text)
    elif link := re.fullmatch(r"!?\[\[([^\]|#]+)[^\]]*\]\]", text):
        text = link[1].strip()
    if not text:
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    return text


def meant(view: VaultView, path: str) -> Meant:
    """The file that a path stands for: with or without `.md`, its end, its bare name.

    Raises:
        BadPath: It is no path at all.
        NotFound: There is none. Names what comes nearest.
    """
    path = plain(path)
    if match := view.queries.find(path):
        return Meant(match.file.path, match.also)
    # What the index does not know yet may be there all the same.
    for candidate in (path, f"{path}.md"):
        if view.vault.locate(candidate).is_file():
            return Meant(candidate)
    near = view.queries.near(path)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Find it with `search` or `structure`."
    raise NotFound(" ".join(filter(None, [f"There is no file {quoted(path)}.", hint, standing(view.status)])))


def surely(view: VaultView, path: str) -> str:
    """The one file that a path can stand for.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    found = meant(view, path)
    if found.also:
        several = ", ".join(map(repr, (found.path, *found.also)))
        raise BadPath(f"{quoted(path)} could be one of several: {several}.", "Give the whole path.")
    return found.path


def surely_any(view: VaultView, path: str) -> str:
    """The one file or folder that a path can stand for.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    text = plain(path).rstrip("/")
    if text and not view.queries.file(text) and view.vault.locate(text).is_dir():
        return text
    return surely(view, text)


def to_create(view: VaultView, path: str) -> str:
    """The path of a file that may not be there yet: a note, if its name has no other extension.

    Where the same name is there in other letters, that one is meant: no vault should have both.

    Raises:
        BadPath: It is no path at all.
    """
    text = with_extension(plain(path).removeprefix("./"))
    there = view.queries.find(text)
    if there and key(there.file.path) == key(text):
        return there.file.path
    folder, slash, name = text.rpartition("/")
    listing = view.queries.folder(folder) if folder else None
    return f"{listing.path}/{name}" if listing else f"{folder}{slash}{name}"


def with_extension(path: str) -> str:
    """A path whose last name has an extension: `.md` if it has no other."""
    name = path.rpartition("/")[2]
    at = name.rfind(".")
    return path if not name or (at > 0 and _EXTENSION.fullmatch(name[at:])) else f"{path}.md"


def to_add_to(view: VaultView, path: str, *, create: bool) -> str:
    """The one file that a path can stand for; one to be created if there is none and `create` allows it.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    try:
        return surely(view, path)
    except NotFound as error:
        if create:
            return to_create(view, path)
        raise NotFound(f"{error} Or set create=true.") from None


def destination(view: VaultView, source: str, to: str) -> str:
    """Where to move something: into a folder under its own name, or to a path with its own extension.

    Raises:
        BadPath: It is no path.
    """
    name = source.rpartition("/")[2]
    wanted = plain(to)
    text = wanted.rstrip("/")
    if text != wanted or (text != source and view.vault.locate(text).is_dir()):
        return f"{text}/{name}" if text else name
    if view.vault.locate(source).is_dir():
        return text
    extension = name[at:] if (at := name.rfind(".")) > 0 else ""
    return text if text.lower().endswith(extension.lower()) else f"{text}{extension}"

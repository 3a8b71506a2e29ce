"""Which file an agent means by a path: as people write it, and refused where it could be another.

Reading takes the best of several, and says so. Writing wants to know exactly.
"""

import re
from typing import NamedTuple

from tidings.vault.path_rules import shorten
from tidings.vault.paths import BadPath
from tidings.vault.shapes import NotFound
from tidings.vault.standings import standing
from tidings.vault.view import View

_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")


class Meant(NamedTuple):
    """A file that is there."""

    path: str
    also: tuple[str, ...] = ()
    """Others that the same words could mean."""


def meant(view: View, path: str) -> Meant:
    """The file that a path stands for: with or without `.md`, its end, its bare name.

    Raises:
        BadPath: It is no path at all.
        NotFound: There is none. Names what comes nearest.
    """
    if not path.strip():
        raise BadPath("The path is empty.", "Give the path of a note, such as 'Projects/Plan.md'.")
    if match := view.queries.find(path):
        return Meant(match.file.path, match.also)
    # What the index does not know yet may be there all the same.
    for candidate in (path, f"{path}.md"):
        if view.vault.locate(candidate).is_file():
            return Meant(candidate)
    near = view.queries.near(path)
    hint = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Find it with `search` or `structure`."
    raise NotFound(" ".join(filter(None, [f"There is no file {shorten(path)}.", hint, standing(view.status)])))


def surely(view: View, path: str) -> str:
    """The one file that a path can stand for.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    found = meant(view, path)
    if found.also:
        several = ", ".join(map(repr, (found.path, *found.also)))
        raise BadPath(f"{shorten(path)} could be one of several: {several}.", "Give the whole path.")
    return found.path


def surely_any(view: View, path: str) -> str:
    """The one file or folder that a path can stand for.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    plain = path.strip().rstrip("/")
    if plain and not view.queries.file(plain) and view.vault.locate(plain).is_dir():
        return plain
    return surely(view, plain)


def to_create(path: str) -> str:
    """The path of a file that may not be there yet: a note, if its name has no other extension."""
    plain = path.strip().removeprefix("./")
    name = plain.rpartition("/")[2]
    at = name.rfind(".")
    return plain if not name or (at > 0 and _EXTENSION.fullmatch(name[at:])) else f"{plain}.md"


def to_add_to(view: View, path: str, *, create: bool) -> str:
    """The one file that a path can stand for; one to be created if there is none and `create` allows it.

    Raises:
        BadPath: It is no path at all, or could be one of several.
        NotFound: There is none.
    """
    try:
        return surely(view, path)
    except NotFound as error:
        if create:
            return to_create(path)
        raise NotFound(f"{error} Or set create=true.") from None


def destination(view: View, source: str, to: str) -> str:
    """Where to move something: into a folder under its own name, or to a path with its own extension.

    Raises:
        BadPath: It is no path.
    """
    name = source.rpartition("/")[2]
    plain = to.strip().rstrip("/")
    if plain != to.strip() or (plain and plain != source and view.vault.locate(plain).is_dir()):
        return f"{plain}/{name}" if plain else name
    if view.vault.locate(source).is_dir():
        return plain
    extension = name[at:] if (at := name.rfind(".")) > 0 else ""
    return plain if plain.lower().endswith(extension.lower()) else f"{plain}{extension}"

"""Renaming a tag across notes.

Only the letters of the tag change, wherever the parser finds it: in the text, in the properties, as the beginning of
a nested tag; never in code. The new text is parsed again before it is written: a note whose tags would not be right is
left alone and reported.
"""

from collections.abc import Iterable

from tidings._kit.text import quoted
from tidings.vault.files.content import FileContent
from tidings.vault.files.disk import Disk
from tidings.vault.files.outcomes import NotText, NotThere, ReadOnly, Retagged, Skipped
from tidings.vault.notes import parse
from tidings.vault.notes.model import key
from tidings.vault.notes.sections import EditRefused


def rename_tag(disk: Disk, old: str, new: str, paths: Iterable[str], *, dry_run: bool = False) -> Retagged:
    """Renames a tag; see `VaultWriter.rename_tag`."""
    old, new = tag_name(old), tag_name(new)
    touched: list[str] = []
    changed: list[str] = []
    skipped: list[Skipped] = []
    total = 0
    for path in dict.fromkeys(paths):
        found = 0

        def make(before: FileContent | None, path: str = path) -> str:
            nonlocal found
            if before is None:
                raise NotThere(f"{path!r} no longer exists.")
            if before.problem:
                raise NotText(f"{path!r} cannot be edited: {before.problem}.")
            text, found = renamed(before.text, old, new)
            return text

        try:
            with disk.one(path) as place:
                if dry_run:
                    before = disk.read(path)
                    differs = make(before) != before.text
                else:
                    written = disk.change(place, make)
                    differs = bool(written.touched)
                    touched += written.touched
        except ReadOnly:
            raise
        except (ValueError, OSError) as error:
            skipped.append(Skipped(path, str(error)))
            continue
        changed += [path] if differs else []
        total += found
    return Retagged(tuple(touched), tuple(changed), total, tuple(skipped))


def renamed(text: str, old: str, new: str) -> tuple[str, int]:
    """Returns a note's text with a tag renamed, and how often. Raises `EditRefused` if that cannot be done safely."""
    tags = parse.parse(text, "").tags
    found = [tag for tag in tags if _nested(tag.name, old) is not None]
    result = text
    for tag in sorted(found, key=lambda tag: tag.start, reverse=True):
        if text[tag.start : tag.end] != tag.name:
            raise EditRefused(f"The tag in line {tag.line} is written with escapes. Edit it by hand.")
        result = result[: tag.start] + new + (_nested(tag.name, old) or "") + result[tag.end :]
    expected = [new + below if (below := _nested(tag.name, old)) is not None else tag.name for tag in tags]
    if [tag.name for tag in parse.parse(result, "").tags] != expected:
        raise EditRefused(f"The tag {quoted(new)} would be read differently in this note. Edit it by hand.")
    return result, len(found)


def _nested(name: str, tag: str) -> str | None:
    """Returns the rest of a nested tag: `/b` of `a/b` in `a`; None if it is not nested in it."""
    parts, depth = name.split("/"), tag.count("/") + 1
    if key("/".join(parts[:depth])) != key(tag):
        return None
    return "".join(f"/{part}" for part in parts[depth:])


def tag_name(text: str) -> str:
    """Returns a tag without its `#`. Raises `EditRefused` if it cannot be one."""
    name = text.strip().removeprefix("#")
    if "//" in f"/{name}" or [tag.name for tag in parse.parse(f"#{name}", "").tags] != [name]:
        raise EditRefused(
            f"{quoted(text)} is not a tag. Tags consist of letters, digits, '_', '-' and '/', and not of digits alone."
        )
    return name

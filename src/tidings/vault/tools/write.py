"""Tools that change notes: parsing what the agent asks for, and reporting what was done."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from typing import Any, Final

from anyio import from_thread
from mcp_types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field

from tidings._kit.text import counted
from tidings.vault.files import outcomes
from tidings.vault.files.disk import Disk
from tidings.vault.files.obsidian import ObsidianSettings, fill_template, first_day
from tidings.vault.files.outcomes import Conflict
from tidings.vault.library import VaultLibrary
from tidings.vault.notes import edits, sections
from tidings.vault.notes.sections import EditRefused
from tidings.vault.tools.lookup import no_such_tag
from tidings.vault.tools.results import answer
from tidings.vault.view import VaultView

_MOST_EDITS: Final = 1_000
_MOST: Final = 200  # The largest number of changed files that are named.
_SOURCES: Final = """SELECT DISTINCT path FROM links JOIN files ON files.id = links.file
    WHERE links.name IN (SELECT value FROM json_each(?)) ORDER BY path"""
_TARGETS: Final = ("find", "section", "block", "lines", "property")


class Edit(BaseModel):
    """One change. It names its target in one of five ways."""

    model_config = ConfigDict(extra="forbid")

    find: str = Field("", description="Exact text that occurs once (or set all)")
    all: bool = False
    section: str = Field("", description="Heading whose text is replaced; the heading stays")
    block: str = Field("", description="Block id")
    lines: str = Field("", description="As in '3-5', numbered as you read them")
    property: str = Field("", description="Gets `value`; null removes it")
    value: Any = None
    content: str = Field("", description="The new text; for all but a property")


def parse_edits(asked: Sequence[Edit]) -> list[edits.Edit]:
    """Turns the agent's edits into changes of a text. Raises `EditRefused` if one is not clear."""
    if not asked:
        raise EditRefused('There is nothing to do. Give at least one edit, as in {"find": "old", "content": "new"}.')
    if len(asked) > _MOST_EDITS:
        raise EditRefused(f"These are {len(asked):,} edits. Make at most {_MOST_EDITS:,} at once, or `write` the note.")
    return [_parse(edit, f"Edit {number}: " if len(asked) > 1 else "") for number, edit in enumerate(asked, 1)]


def _parse(edit: Edit, which: str) -> edits.Edit:
    given = edit.model_fields_set
    named = [target for target in _TARGETS if getattr(edit, target)]
    if len(named) != 1:
        raise EditRefused(f"{which}give exactly one of {', '.join(_TARGETS)}; it has {' and '.join(named) or 'none'}.")
    if edit.property:
        if "value" not in given or "content" in given:
            raise EditRefused(f"{which}a property takes a value, not content; null removes it.")
        return edits.SetProperty(edit.property, edit.value)
    if "content" not in given or "value" in given:
        raise EditRefused(f"{which}{named[0]} takes content, the new text; an empty one removes the old.")
    if edit.find:
        return edits.ReplaceText(edit.find, edit.content, all=edit.all)
    if edit.section:
        return edits.ReplaceSection(edit.section, edit.content)
    if edit.block:
        return edits.ReplaceBlock(edit.block, edit.content)
    lines = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", edit.lines)
    if lines is None:
        cure = "Write one such as '3' or '3-5', with both ends."
        raise EditRefused(f"{which}{edit.lines!r} is not a range of lines. {cure}")
    return edits.ReplaceLines(int(lines[1]), int(lines[2] or lines[1]), edit.content)


def written(done: outcomes.FileWritten, verb: str, *, with_diff: bool = False) -> CallToolResult:
    """Returns the result of a write."""
    said = f"{'Created' if done.created else verb} {done.path}"
    if not done.touched:
        said = f"Nothing changed: {done.path} was like that already"
    data = {"path": done.path, "version": done.version, "done": f"{said}."}
    if with_diff and (diff := done.diff):
        data["diff"] = diff
    if done.cut:
        data["note"] = "Other names of this file (hard links) keep the old text: it has a file of its own now."
    parts = (f"{said} (version {done.version}).", data.get("note"), data.get("diff"))
    return answer("\n".join(filter(None, parts)), data)


def moved(done: outcomes.FileMoved, version: str | None, *, dry_run: bool = False) -> CallToolResult:
    """Returns the result of a move, or of a dry run."""
    said = f"{'Would move' if dry_run else 'Moved'} {done.path} to {done.to}."
    if done.changed:
        said += f" Links {'would be' if dry_run else 'were'} updated in {counted(len(done.changed), 'file')}."
    data = {"path": done.path if dry_run else done.to} | ({"version": version} if version else {})
    unwritten = [f"{each.path}: {each.why}" for each in done.unwritten]
    return changed(said, done.changed, [*_not_changed(done.skipped), *unwritten], dry_run=dry_run, **data)


def tagged(view: VaultView, tag: str, if_match: str) -> tuple[list[str], str]:
    """Returns the notes with a tag, and the version of all of them together. Raises `ResourceMissing` or `Conflict`."""
    notes = [each.path for each in view.queries.with_tag(tag)]
    if not notes:
        raise no_such_tag(view, tag)
    versions = [(path, file.hash) for path in notes if (file := view.queries.file(path))]
    version = hashlib.blake2b(repr(versions).encode(), digest_size=8).hexdigest()
    if if_match and if_match != version:
        why = "Notes with this tag came, went or were edited: dry_run=true lists them as they are."
        raise Conflict(f"#{tag.strip().lstrip('#')}", if_match, version, why)
    return notes, version


def retagged(tag: str, to: str, done: outcomes.Retagged, *, would_be: str | None = None) -> CallToolResult:
    """Returns the result of renaming a tag, or of a dry run on the notes of that version. Raises `WriteFailed`."""
    if done.skipped and not done.changed:
        raise outcomes.WriteFailed(f"No note was changed. {done.skipped[-1].path}: {done.skipped[-1].why}")
    dry_run = would_be is not None
    old, new = tag.strip().lstrip("#"), to.strip().lstrip("#")
    verb = "Would rename" if dry_run else "Renamed"
    said = f"{verb} #{old} to #{new}: {counted(done.count, 'tag')} in {counted(len(done.changed), 'file')}."
    data = {"version": would_be} if dry_run else {}
    return changed(said, done.changed, _not_changed(done.skipped), dry_run=dry_run, **data)


def changed(
    said: str, files: Sequence[str], warnings: Sequence[str] = (), *, dry_run: bool = False, **data: Any
) -> CallToolResult:
    """Returns the result of a change of several files."""
    named = list(files[:_MOST])
    data |= {"done": f"{said} Nothing was changed." if dry_run else said, "changed": named}
    if warnings:
        data["warnings"] = [*warnings]
    return answer("\n".join([data["done"], *(named if dry_run else []), *warnings]), data)


def _not_changed(skipped: Sequence[outcomes.Skipped]) -> list[str]:
    return [f"Not changed: {each.path}. {each.why}" for each in skipped]


def periodic_start(view: VaultView, day: date, period: str, now: datetime, append: str) -> tuple[str, str, str]:
    """Returns path and text of a new daily note, or that of a week and so on, with `append`; and a remark about it."""
    path = view.periodic_places(day, period)[0]
    mount = view.vault.mounts[0]
    settings = ObsidianSettings.read(mount.root)
    text = note = ""
    if place := settings.periods[period].template:
        try:
            template = Disk(view.vault).read(mount.path(place)).text
        except (ValueError, OSError) as error:
            note = f"The template of {period} notes was left out: {error}"
        else:
            when = datetime.combine(first_day(settings, day, period), now.timetz())
            title = path.rpartition("/")[2].removesuffix(".md")
            text = fill_template(template, settings, title=title, when=when)
    return path, sections.append(text, append) if append else text, note


@dataclass
class IndexReferences:
    """Answers a move's questions in the thread of `VaultLibrary.write`; `found` gets the number of files with links."""

    library: VaultLibrary
    found: Callable[[int], Coroutine[Any, Any, None]]
    _candidates: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def sources(self, names: Collection[str], /) -> Iterable[str]:
        def question(view: VaultView) -> list[str]:
            return [path for (path,) in view.queries.connection.execute(_SOURCES, (json.dumps([*names]),))]

        paths = from_thread.run(self.library.ask, question)
        from_thread.run(self.found, len(paths))
        return paths

    def candidates(self, name: str, /) -> Sequence[str]:
        if name not in self._candidates:
            ask = partial(self.library.ask, lambda view: view.queries.candidates(name))
            self._candidates[name] = from_thread.run(ask)
        return self._candidates[name]

"""What the Obsidian app is set to for a vault: read from `.obsidian/`, never written.

A setting that is missing, or a file that is broken, means Obsidian's default: whoever has no app has no settings.

May import: `moment`, `paths`, `regular`, `regexes`.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import regex

from tidings.vault.files.content import read_regular
from tidings.vault.files.moment import moment_format, moment_parse
from tidings.vault.files.paths import key
from tidings.vault.notes.regexes import BadPattern, compiled

_Choice = TypeVar("_Choice", bound=str)
LinkFormat = Literal["shortest", "relative", "absolute"]

_LARGEST = 1_000_000
"""Bytes; a file of settings has a few hundred."""
_PATIENCE = 0.05
"""Seconds for one path and one exclusion that somebody wrote as a regular expression."""


@dataclass(frozen=True)
class ObsidianSettings:
    """How the app is set, as far as it matters to what is written and found. All paths are from the vault's folder."""

    daily_folder: str = ""
    daily_format: str = "YYYY-MM-DD"
    daily_template: str = ""
    """The path of a note, or empty."""
    date_format: str = "YYYY-MM-DD"
    time_format: str = "HH:mm"
    """How templates write dates and times."""
    ignored: tuple[str, ...] = ()
    """What the app hides from search: the beginning of a path, or a regular expression between slashes."""
    link_format: LinkFormat = "shortest"
    markdown_links: bool = False
    attachment_folder: str = ""
    """From the vault's folder; with `./` in front, from the folder of the note."""
    trash: Literal["system", "local", "none"] = "system"

    @classmethod
    def read(cls, root: Path) -> "ObsidianSettings":
        """The settings of the vault in a folder."""
        folder = root / ".obsidian"
        app, daily, templates = (_load(folder / f"{name}.json") for name in ("app", "daily-notes", "templates"))
        template = _inner(_text(daily, "template"))
        return cls(
            daily_folder=_inner(_text(daily, "folder")),
            daily_format=_text(daily, "format") or cls.daily_format,
            daily_template=template if not template or template.endswith(".md") else f"{template}.md",
            date_format=_text(templates, "dateFormat") or cls.date_format,
            time_format=_text(templates, "timeFormat") or cls.time_format,
            ignored=_texts(app, "userIgnoreFilters"),
            link_format=_one(_text(app, "newLinkFormat"), "shortest", "relative", "absolute"),
            markdown_links=app.get("useMarkdownLinks") is True,
            attachment_folder=_text(app, "attachmentFolderPath").strip("/"),
            trash=_one(_text(app, "trashOption"), "system", "local", "none"),
        )

    def ignores(self, inner: str) -> bool:
        """Whether the app hides a path from search."""
        return self._ignored.match(inner)

    @cached_property
    def _ignored(self) -> "_Ignored":
        return _Ignored(self.ignored)


class _Ignored:
    def __init__(self, filters: tuple[str, ...]) -> None:
        self._expressions: list[regex.Pattern[str]] = []
        prefixes: list[str] = []
        for text in filters:
            if len(text) > 2 and text.startswith("/") and text.endswith("/"):
                with suppress(BadPattern):  # As in the app, a broken one hides nothing.
                    self._expressions.append(compiled(text[1:-1], match_case=False, dotall=False))
            elif text.strip("/"):
                prefixes.append(key(text))
        self._prefixes = tuple(prefixes)

    def match(self, inner: str) -> bool:
        return key(inner).startswith(self._prefixes) or any(_finds(one, inner) for one in self._expressions)


def _finds(expression: regex.Pattern[str], text: str) -> bool:
    try:
        return expression.search(text, timeout=_PATIENCE) is not None
    except TimeoutError:
        return False


def daily_path(settings: ObsidianSettings, day: date) -> str:
    """The path of a day's note within its vault."""
    name = moment_format(day, _inner(settings.daily_format))
    return f"{settings.daily_folder}/{name}.md" if settings.daily_folder else f"{name}.md"


def daily_date(settings: ObsidianSettings, inner: str) -> date | None:
    """The day whose note has this path within its vault; None if it is no daily note."""
    folder = f"{settings.daily_folder}/" if settings.daily_folder else ""
    if not inner.startswith(folder) or not inner.endswith(".md"):
        return None
    return moment_parse(inner[len(folder) : -len(".md")], _inner(settings.daily_format))


def fill_template(text: str, settings: ObsidianSettings, *, title: str, when: datetime) -> str:
    """A template with `{{title}}`, `{{date}}`, `{{date:FORMAT}}`, `{{time}}` and `{{time:FORMAT}}` filled in."""
    formats = {"date": settings.date_format, "time": settings.time_format}

    def value(match: re.Match[str]) -> str:
        if match["title"]:
            return title
        return moment_format(when, match["format"] or formats[match["name"].lower()])

    return _VARIABLE.sub(value, text)


_VARIABLE = re.compile(
    r"\{\{\s*(?:(?P<name>date|time)\s*(?::\s*(?P<format>[^{}]*?))?|(?P<title>title))\s*\}\}", re.IGNORECASE
)


def _load(file: Path) -> dict[str, Any]:
    try:
        loaded: Any = json.loads(read_regular(file, _LARGEST).decode("utf-8-sig"))
    except (OSError, OverflowError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}


def _text(settings: dict[str, Any], name: str) -> str:
    value = settings.get(name)
    return value.strip() if isinstance(value, str) else ""


def _texts(settings: dict[str, Any], name: str) -> tuple[str, ...]:
    value: Any = settings.get(name)
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, str))


def _inner(path: str) -> str:
    """A path as the app keeps it: `/` is the vault itself."""
    return "/".join(filter(None, path.split("/")))


def _one(text: str, *choices: _Choice) -> _Choice:
    return next((choice for choice in choices if choice == text), choices[0])

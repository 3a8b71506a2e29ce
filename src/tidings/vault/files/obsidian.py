"""`ObsidianSettings`: the app's settings for a vault, read from `.obsidian/`, never written.

A missing setting or a broken file means Obsidian's default.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tidings._kit.bounded_json import as_dict, as_text, as_texts
from tidings._kit.files import read_file
from tidings._kit.patterns import BadPattern, Pattern, compiled
from tidings.vault.files.moment import moment_format, moment_parse
from tidings.vault.notes.model import key

_LARGEST_FILE = 1_000_000
_PATTERN_SECONDS = 0.05  # For one path and one regular expression of the user.
_VARIABLE = re.compile(
    r"\{\{\s*(?:(?P<name>date|time)\s*(?::\s*(?P<format>[^{}]*?))?|(?P<title>title))\s*\}\}", re.IGNORECASE
)


@dataclass(frozen=True)
class ObsidianSettings:
    """The app's settings that matter to writing and finding. All paths are relative to the vault's folder."""

    daily_folder: str = ""
    daily_format: str = "YYYY-MM-DD"
    daily_template: str = ""  # The path of a note, or empty.
    date_format: str = "YYYY-MM-DD"
    time_format: str = "HH:mm"  # The formats of dates and times in templates.
    ignored: tuple[str, ...] = ()  # Paths hidden from search: prefixes, or regular expressions between slashes.

    @classmethod
    def read(cls, root: Path) -> "ObsidianSettings":
        folder = root / ".obsidian"
        app, daily, templates = (_load(folder / f"{name}.json") for name in ("app", "daily-notes", "templates"))
        template = _inner(_text(daily, "template"))
        return cls(
            daily_folder=_inner(_text(daily, "folder")),
            daily_format=_text(daily, "format") or cls.daily_format,
            daily_template=template if not template or template.endswith(".md") else f"{template}.md",
            date_format=_text(templates, "dateFormat") or cls.date_format,
            time_format=_text(templates, "timeFormat") or cls.time_format,
            ignored=tuple(as_texts(app.get("userIgnoreFilters"))),
        )

    def ignores(self, inner: str) -> bool:
        prefixes, expressions = self._ignored
        if key(inner).startswith(prefixes):
            return True
        for expression in expressions:
            with suppress(TimeoutError):
                if expression.search(inner, timeout=_PATTERN_SECONDS):
                    return True
        return False

    @cached_property
    def _ignored(self) -> tuple[tuple[str, ...], list[Pattern]]:
        prefixes: list[str] = []
        expressions: list[Pattern] = []
        for text in self.ignored:
            if len(text) > 2 and text.startswith("/") and text.endswith("/"):
                with suppress(BadPattern):  # As in the app, a broken one hides nothing.
                    expressions.append(compiled(text[1:-1], ignore_case=True, multiline=True))
            elif text.strip("/"):
                prefixes.append(key(text))
        return tuple(prefixes), expressions


def daily_path(settings: ObsidianSettings, day: date) -> str:
    """Returns the path of a day's note within its vault."""
    name = moment_format(day, _inner(settings.daily_format))
    return f"{settings.daily_folder}/{name}.md" if settings.daily_folder else f"{name}.md"


def daily_date(settings: ObsidianSettings, inner: str) -> date | None:
    """Returns the day whose note has this path within its vault; None if it is not a daily note."""
    folder = f"{settings.daily_folder}/" if settings.daily_folder else ""
    if not inner.startswith(folder) or not inner.endswith(".md"):
        return None
    return moment_parse(inner[len(folder) : -len(".md")], _inner(settings.daily_format))


def fill_template(text: str, settings: ObsidianSettings, *, title: str, when: datetime) -> str:
    """Fills `{{title}}`, `{{date}}`, `{{date:FORMAT}}`, `{{time}}` and `{{time:FORMAT}}` into a template."""
    formats = {"date": settings.date_format, "time": settings.time_format}

    def value(match: re.Match[str]) -> str:
        if match["title"]:
            return title
        return moment_format(when, match["format"] or formats[match["name"].lower()])

    return _VARIABLE.sub(value, text)


def _load(file: Path) -> dict[str, Any]:
    try:
        return as_dict(json.loads(read_file(file, _LARGEST_FILE)[0].decode("utf-8-sig")))
    except (OSError, OverflowError, ValueError, RecursionError):
        return {}


def _text(settings: dict[str, Any], name: str) -> str:
    return (as_text(settings.get(name)) or "").strip()


def _inner(path: str) -> str:
    """Returns a path without the slashes at its ends: the app writes `/` for the vault itself."""
    return "/".join(filter(None, path.split("/")))

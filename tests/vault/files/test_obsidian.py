"""What the Obsidian app is set to for a vault."""

import contextlib
import json
import os
import socket
from datetime import date, datetime
from pathlib import Path

import pytest

from tidings.vault.files import obsidian
from tidings.vault.files.obsidian import (
    ObsidianSettings,
    PeriodicNotes,
    fill_template,
    first_day,
    periodic_path,
)

DAY = date(2024, 3, 5)
PERIODS = ObsidianSettings().periods


def configure(root: Path, **files: object) -> ObsidianSettings:
    (root / ".obsidian").mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (root / f".obsidian/{name.replace('_', '-')}.json").write_text(text, "utf-8")
    return ObsidianSettings.read(root)


def test_without_the_app_everything_is_as_it_comes(tmp_path: Path) -> None:
    assert ObsidianSettings.read(tmp_path) == ObsidianSettings()
    assert periodic_path(ObsidianSettings(), DAY) == "2024-03-05.md"


def test_settings_are_read(tmp_path: Path) -> None:
    settings = configure(
        tmp_path,
        app={
            "userIgnoreFilters": ["Archive/", "/draft-\\d+/", 7],
            "newLinkFormat": "relative",
        },
        daily_notes={"folder": "/Daily/", "format": "YYYY/MM/YYYY-MM-DD", "template": "Templates/Daily"},
        templates={"dateFormat": "D.M.YYYY", "timeFormat": "H:mm"},
    )
    assert settings == ObsidianSettings(
        periods=PERIODS | {"daily": PeriodicNotes("YYYY/MM/YYYY-MM-DD", "Daily", "Templates/Daily.md")},
        date_format="D.M.YYYY",
        time_format="H:mm",
        ignored=("Archive/", "/draft-\\d+/"),
    )
    assert periodic_path(settings, DAY) == "Daily/2024/03/2024-03-05.md"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"folder": 7, "format": null, "template": ["x"]}',
        '{"userIgnoreFilters": "odd"}',
        "[" * 10_000,
    ],
)
def test_broken_settings_mean_the_defaults(tmp_path: Path, content: str) -> None:
    assert configure(tmp_path, app=content, daily_notes=content, templates=content) == ObsidianSettings()


def test_settings_that_are_no_text_or_too_large_or_a_folder_mean_the_defaults(tmp_path: Path) -> None:
    configure(tmp_path, app='{"userIgnoreFilters": ["a"], "x": "' + "x" * 1_000_000 + '"}')
    (tmp_path / ".obsidian/daily-notes.json").write_bytes(b'{"folder": "\xff"}')
    (tmp_path / ".obsidian/templates.json").mkdir()
    assert ObsidianSettings.read(tmp_path) == ObsidianSettings()


def test_settings_that_are_a_pipe_a_socket_or_a_device_mean_the_defaults_and_keep_nobody_waiting(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ".obsidian"
    folder.mkdir()
    os.mkfifo(folder / "app.json")
    (folder / "daily-notes.json").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(folder):
        server.bind("templates.json")
        assert ObsidianSettings.read(tmp_path) == ObsidianSettings()
    (folder / "daily-notes.json").unlink()
    (folder / "daily-notes.json").symlink_to("app.json")
    assert ObsidianSettings.read(tmp_path) == ObsidianSettings()


def test_settings_that_are_kept_elsewhere_are_read_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "shared.json").write_text('{"userIgnoreFilters": ["a"]}')
    (tmp_path / ".obsidian").mkdir()
    (tmp_path / ".obsidian/app.json").symlink_to("../shared.json")
    assert ObsidianSettings.read(tmp_path).ignored == ("a",)


def test_what_the_app_ignores_is_told_by_prefix_or_expression() -> None:
    settings = ObsidianSettings(ignored=("Archive/", "/draft-\\d+/", "/(/", "", "//", "/(a+)+$/"))
    assert settings.ignores("archive/x.md")
    assert settings.ignores("Work/Draft-12.md")
    assert not settings.ignores("Work/Archive/x.md")
    assert not settings.ignores("Work/draft.md")
    assert not settings.ignores("a" * 60 + "!")
    assert not ObsidianSettings().ignores("x.md")


def test_a_template_is_filled_in() -> None:
    text = "# {{title}}\n{{date}} {{ Date : dddd [of] YYYY }} {{time}} {{time:HH}} {{other}} {{date {{"
    settings = ObsidianSettings(date_format="D.M.YYYY", time_format="H.mm")
    filled = fill_template(text, settings, title="Today", when=datetime(2024, 3, 5, 14, 7).astimezone())
    assert filled == "# Today\n5.3.2024 Tuesday of 2024 14.07 14 {{other}} {{date {{"


def test_an_expression_that_takes_for_ever_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obsidian, "_PATTERN_SECONDS", 0.001)
    assert not ObsidianSettings(ignored=("/(?:a|a|b?a)*$/",)).ignores("a" * 200 + "!")


def test_periodic_notes_are_where_the_plugin_has_them(tmp_path: Path) -> None:
    folder = tmp_path / ".obsidian/plugins/periodic-notes"
    folder.mkdir(parents=True)
    weekly = {"format": "GGGG-[W]WW", "folder": "Weeks/", "template": "T/Week", "enabled": True}
    (folder / "data.json").write_text(json.dumps({"daily": {"format": "D", "enabled": False}, "weekly": weekly}))
    settings = configure(tmp_path, daily_notes={"folder": "Days"})

    assert [periodic_path(settings, DAY, period) for period in PERIODS] == [
        "Days/2024-03-05.md",
        "Weeks/2024-W10.md",
        "2024-03.md",
        "2024-Q1.md",
        "2024.md",
    ]
    assert settings.periods["weekly"].template == "T/Week.md"
    assert [first_day(settings, DAY, period).isoformat() for period in PERIODS] == [
        "2024-03-05",
        "2024-03-04",
        "2024-03-01",
        "2024-01-01",
        "2024-01-01",
    ]
    assert first_day(ObsidianSettings(), DAY, "weekly") == date(2024, 3, 3)


def test_the_newer_settings_of_the_plugin_are_read(tmp_path: Path) -> None:
    folder = tmp_path / ".obsidian/plugins/periodic-notes"
    folder.mkdir(parents=True)
    sets = [{"id": "Other"}, {"id": "Mine", "month": {"enabled": True, "format": "MMMM", "templatePath": "M.md"}}]
    (folder / "data.json").write_text(json.dumps({"calendarSets": sets, "activeCalendarSet": "Mine"}))

    assert ObsidianSettings.read(tmp_path).periods["monthly"] == PeriodicNotes("MMMM", "", "M.md")


def test_a_template_may_name_other_days() -> None:
    text = "{{yesterday}} {{tomorrow:DD}} {{date+1w}} {{date -2d:D}} {{monday}} {{Sunday:ddd D}}"
    filled = fill_template(text, ObsidianSettings(), title="", when=datetime(2024, 3, 5).astimezone())
    assert filled == "2024-03-04 06 2024-03-12 3 2024-03-04 Sun 10"

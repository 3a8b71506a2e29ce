"""The catalog: what is kept, what is shown, and what happens to a file that is not as it should be."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidings._kit import files
from tidings.errors import BadTarget
from tidings.inspector.catalog.catalog import Catalog, exported
from tidings.inspector.catalog.entry import LARGEST, CatalogError, ServerEntry, keep_secrets, user_catalog
from tidings.inspector.server import ConnectionSpec

WEATHER = ServerEntry(
    "weather",
    command="uvx",
    args=("weather", "--api-key", "sk-argument-1"),
    env={"API_KEY": "env-secret-1", "LANG": "no"},
    cwd="/srv",
    era="legacy",
    timeouts={"connect": 3, "request": 5.5},
    log_level="debug",
    auto_connect=True,
    roots=("/srv",),
)
NOTES = ServerEntry(
    "notes", url="https://h.example/mcp?key=url-secret-1", kind="sse", headers={"Authorization": "Bearer header-1"}
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "config" / "tidings" / "servers.json")


def names(catalog: Catalog) -> list[str]:
    return [each.name for each in catalog.entries()]


def get(catalog: Catalog, name: str) -> ServerEntry:
    return next(each for each in catalog.entries() if each.name == name)


def written(catalog: Catalog) -> dict[str, Any]:
    return json.loads(catalog.path.read_text())


def test_what_is_added_is_there_for_the_next_program(catalog: Catalog) -> None:
    assert catalog.entries() == []
    catalog.add(WEATHER)
    catalog.add(NOTES)
    assert Catalog(catalog.path).entries() == [WEATHER, NOTES]


def test_the_file_is_what_other_programs_understand(catalog: Catalog) -> None:
    catalog.add(WEATHER)
    catalog.add(NOTES)
    servers = written(catalog)["mcpServers"]
    assert servers["weather"] == {
        "command": "uvx",
        "args": ["weather", "--api-key", "sk-argument-1"],
        "env": {"API_KEY": "env-secret-1", "LANG": "no"},
        "cwd": "/srv",
        "tidings": {
            "era": "legacy",
            "timeouts": {"connect": 3, "request": 5.5},
            "logLevel": "debug",
            "autoConnect": True,
            "roots": ["/srv"],
        },
    }
    assert servers["notes"] == {
        "type": "sse",
        "url": "https://h.example/mcp?key=url-secret-1",
        "headers": {"Authorization": "Bearer header-1"},
    }


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_the_file_is_readable_for_its_owner_alone(catalog: Catalog) -> None:
    catalog.add(WEATHER)
    catalog.path.chmod(0o644)
    catalog.add(NOTES)
    assert catalog.path.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in catalog.path.parent.iterdir()) == [".servers.json.lock", "servers.json"]


def test_a_name_that_is_taken_is_refused_or_numbered(catalog: Catalog) -> None:
    catalog.add(WEATHER)
    with pytest.raises(CatalogError, match=r"Use another name, such as 'weather \(2\)'"):
        catalog.add(WEATHER)
    assert catalog.add(WEATHER, rename=True).name == "weather (2)"
    assert catalog.add(WEATHER, rename=True).name == "weather (3)"


def test_a_clone_stands_behind_the_original(catalog: Catalog) -> None:
    catalog.add(WEATHER)
    catalog.add(NOTES)
    copy = replace(WEATHER, name="weather copy")
    assert catalog.add(copy, rename=True, after="weather") == copy
    assert catalog.add(copy, rename=True, after="weather").name == "weather copy (2)"
    assert names(catalog) == ["weather", "weather copy (2)", "weather copy", "notes"]


def test_an_edit_keeps_the_place_and_may_rename(catalog: Catalog) -> None:
    catalog.add(WEATHER)
    catalog.add(NOTES)
    catalog.edit(get(catalog, "weather"), replace(WEATHER, name="sky", args=("sky",)))
    assert names(catalog) == ["sky", "notes"]
    assert get(catalog, "sky").args == ("sky",)
    with pytest.raises(CatalogError, match="There is already a server called 'notes'"):
        catalog.edit(get(catalog, "sky"), replace(WEATHER, name="notes"))


def test_an_edit_of_what_another_program_changed_meanwhile_is_refused(catalog: Catalog) -> None:
    before = catalog.add(WEATHER)
    other = Catalog(catalog.path)
    other.edit(get(other, "weather"), replace(WEATHER, cwd="/elsewhere"))
    with pytest.raises(CatalogError, match="Another program has changed 'weather' meanwhile"):
        catalog.edit(before, replace(before, cwd="/mine"))
    assert get(catalog, "weather").cwd == "/elsewhere"


def test_servers_are_removed_and_their_names_are_unknown_then(catalog: Catalog) -> None:
    for name in ("a", "b", "c"):
        catalog.add(replace(NOTES, name=name))
    catalog.remove("a")
    assert names(catalog) == ["b", "c"]
    with pytest.raises(CatalogError, match="has no server called 'a'"):
        catalog.remove("a")


def test_what_others_wrote_is_kept(catalog: Catalog) -> None:
    catalog.path.parent.mkdir(parents=True)
    theirs = {"command": "x", "args": [], "disabled": False, "theirs": {"a": [1]}, "tidings": {"future": 1}}
    document = {"theme": "dark", "mcpServers": {"x": theirs, "broken": 5}, "other": [1]}
    catalog.path.write_text(json.dumps(document))
    catalog.add(NOTES)
    after = catalog.edit(get(catalog, "x"), replace(get(catalog, "x"), era="legacy"))
    assert after.others["theirs"] == {"a": [1]}
    found = written(catalog)
    assert (found["theme"], found["other"], found["mcpServers"]["broken"]) == ("dark", [1], 5)
    assert found["mcpServers"]["x"] == theirs | {"tidings": {"future": 1, "era": "legacy"}}


def test_an_entry_that_is_none_hides_no_other(catalog: Catalog) -> None:
    catalog.path.parent.mkdir(parents=True)
    servers = {
        "a": 5,
        "b": {"url": "http://x/"},
        "c": {},
        "d": {"command": "x", "args": "y"},
        "e": {"command": "x", "tidings": {"era": "new"}},
    }
    catalog.path.write_text(json.dumps({"mcpServers": servers}))
    entries, problems = catalog.listing()
    assert [entry.name for entry in entries] == ["b"]
    assert [words.partition(" in ")[0] for words in problems] == [f"The server {name!r}" for name in "acde"]
    assert "tidings.era must be auto, legacy or a version" in problems[-1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("nonsense", "is not JSON: line 1, column 1"),
        ('{"mcpServers": {\n  "a": }}', "is not JSON: line 2, column 8"),
        ("[]", "must contain an object"),
        ('{"mcpServers": []}', "must be an object of servers by name"),
        ("[" * 100_000, "is not JSON"),
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b" " * (LARGEST + 1), "has more than 8 MB"),
    ],
)
def test_a_file_that_is_none_is_named_with_the_reason_and_left_alone(
    catalog: Catalog, content: str | bytes, words: str
) -> None:
    catalog.path.parent.mkdir(parents=True)
    data = content if isinstance(content, bytes) else content.encode()
    catalog.path.write_bytes(data)
    for wrong in (catalog.listing, lambda: catalog.add(NOTES)):
        with pytest.raises(CatalogError, match=words):
            wrong()
    assert catalog.path.read_bytes() == data


def test_comments_are_read_but_not_written_over(catalog: Catalog) -> None:
    catalog.path.parent.mkdir(parents=True)
    catalog.path.write_text('{ // mine\n "mcpServers": {"a": {"url": "http://x/ /*no*/",},}, /* end */ }')
    assert get(catalog, "a").url == "http://x/ /*no*/"
    with pytest.raises(CatalogError, match="would be lost"):
        catalog.add(NOTES)


def test_a_folder_a_link_to_itself_and_a_forbidden_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="is a folder"):
        Catalog(tmp_path).entries()
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(CatalogError, match="cannot be read"):
        Catalog(loop).entries()
    with pytest.raises(CatalogError):
        Catalog(loop).add(NOTES)
    below = Catalog(tmp_path / "file" / "servers.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match="cannot be written"):
        below.add(NOTES)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_must_not_be_read_is_told(catalog: Catalog) -> None:
    catalog.add(NOTES)
    catalog.path.chmod(0)
    with pytest.raises(CatalogError, match="Permission denied"):
        catalog.entries()


def test_a_link_stays_a_link(catalog: Catalog, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "servers.json"
    real.parent.mkdir()
    catalog.path.parent.mkdir(parents=True)
    catalog.path.symlink_to(real)
    catalog.add(NOTES)
    assert catalog.path.is_symlink()
    assert names(Catalog(real)) == ["notes"]


def test_a_catalog_that_belongs_to_others_is_only_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"servers": {"a": {"url": "http://x/"}}}')
    catalog = Catalog(file, read_only=True)
    with pytest.raises(CatalogError, match="is read-only here"):
        catalog.remove("a")


WRITER = """
import sys
from pathlib import Path
from tidings.inspector.catalog.catalog import Catalog
from tidings.inspector.catalog.entry import ServerEntry
catalog = Catalog(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    catalog.add(ServerEntry(f"{sys.argv[2]}{number}", url="http://x/"))
"""


def test_processes_that_write_at_once_lose_nothing(catalog: Catalog) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(catalog.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        assert [writer.communicate("go\n", timeout=60) for writer in writers] == [("", None)] * 3
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert sorted(names(catalog)) == sorted(f"{name}{number}" for name in "abc" for number in range(20))


def test_what_a_program_without_the_lock_writes_meanwhile_is_kept(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.add(NOTES)
    replace_file = files.replace_file
    meddled: list[bool] = []

    def replaced(path: Path, data: bytes, seen: os.stat_result | None) -> bool:
        if not meddled:
            meddled.append(True)
            path.write_text('{"mcpServers": {"theirs": {"url": "http://x/"}}, "theme": "dark"}')
        return replace_file(path, data, seen)

    monkeypatch.setattr(files, "replace_file", replaced)
    catalog.add(WEATHER)
    assert names(catalog) == ["theirs", "weather"]
    assert written(catalog)["theme"] == "dark"


def test_importing_twice_makes_no_duplicates_and_a_clash_is_numbered(catalog: Catalog) -> None:
    catalog.add(replace(NOTES, url="https://other.example/mcp"))
    first = catalog.import_entries([WEATHER, NOTES])
    assert [entry.name for entry in first.added] == ["weather", "notes (2)"]
    assert "notes (2)" in [entry.name for entry in first.added]
    second = catalog.import_entries([WEATHER, NOTES])
    assert (second.added, second.known) == ([], ["weather", "notes (2)"])
    assert names(catalog) == ["notes", "weather", "notes (2)"]


SECRETS = ("sk-argument-1", "env-secret-1", "url-secret-1", "header-1")


def test_no_secret_is_shown() -> None:
    for entry in (WEATHER, NOTES):
        texts = (repr(entry), json.dumps(entry.shown()), f"{entry}")
        assert not [secret for secret in SECRETS for text in texts if secret in text]
    assert WEATHER.shown()["env"] == {"API_KEY": "***", "LANG": "no"}
    named = replace(NOTES, headers={"Authorization": "Bearer ${TOKEN}", "X-Key": "${TOKEN:-secret}"})
    assert named.shown()["headers"] == {"Authorization": "Bearer ${TOKEN}", "X-Key": "***"}


def test_an_export_has_no_secret() -> None:
    document = exported([WEATHER, NOTES])
    assert not [secret for secret in SECRETS if secret in json.dumps(document)]
    assert document["mcpServers"]["weather"]["env"] == {"API_KEY": "***", "LANG": "no"}


def test_what_was_edited_as_it_was_shown_keeps_its_secrets() -> None:
    for entry in (WEATHER, NOTES):
        edited = ServerEntry.from_raw(entry.name, entry.shown())
        assert keep_secrets(edited, entry) == entry
    longer = replace(ServerEntry.from_raw("weather", WEATHER.shown()), env={"API_KEY": "***", "LANG": "de"})
    assert keep_secrets(longer, WEATHER).env == {"API_KEY": "env-secret-1", "LANG": "de"}


def test_secrets_do_not_follow_an_entry_to_another_host_or_program() -> None:
    shown = ServerEntry.from_raw("notes", NOTES.shown())
    with pytest.raises(CatalogError, match="This is another server now"):
        keep_secrets(replace(shown, url="https://elsewhere.example/mcp"), NOTES)
    with pytest.raises(CatalogError, match="This is another server now"):
        keep_secrets(replace(ServerEntry.from_raw("weather", WEATHER.shown()), command="curl"), WEATHER)
    fresh = replace(shown, url="https://elsewhere.example/mcp", headers={"Authorization": "Bearer new"})
    assert keep_secrets(fresh, NOTES) == fresh


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (ServerEntry("x"), "neither a command nor a url"),
        (ServerEntry("", url="http://x/"), "needs a name"),
        (ServerEntry("a\nb", url="http://x/"), "needs a name"),
        (ServerEntry("x", url="http://x/", era="newest"), "tidings.era must be"),
        (ServerEntry("x", url="http://x/", log_level="loud"), "tidings.logLevel must be one of debug"),
        (ServerEntry("x", url="http://x/", timeouts={"request": -1}), "timeouts.request must be a number"),
    ],
)
def test_an_entry_that_is_none_is_not_added(catalog: Catalog, entry: ServerEntry, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        catalog.add(entry)
    assert not catalog.path.exists()


def test_variables_are_filled_in_when_somebody_connects() -> None:
    entry = ServerEntry("x", command="run", args=("${ARG:-default}",), env={"KEY": "${env:MY_KEY}"})
    resolved = entry.resolved({"MY_KEY": "value-of-key"})
    assert (resolved.args, resolved.env, resolved.hidden) == (("default",), {"KEY": "value-of-key"}, {"value-of-key"})
    with pytest.raises(BadTarget, match="The server 'x' needs the variable MY_KEY"):
        entry.resolved({})


def test_an_entry_is_what_a_client_connects_with() -> None:
    spec = ConnectionSpec.of(WEATHER, {})
    assert (spec.era, spec.log_level, spec.roots) == ("legacy", "debug", ("/srv",))
    assert spec.timeouts is not None
    assert (spec.timeouts.request, spec.timeouts.total) == (5.5, 300.0)
    assert spec.parsed().name == "weather"
    assert ConnectionSpec.of(NOTES, {}).parsed().name == "notes"


def test_the_catalog_is_where_a_systems_programs_keep_their_settings() -> None:
    home = Path("/me")
    assert user_catalog({}, "linux", home) == home / ".config/tidings/servers.json"
    assert user_catalog({"XDG_CONFIG_HOME": "/x"}, "linux", home) == Path("/x/tidings/servers.json")
    assert user_catalog({"XDG_CONFIG_HOME": "relative"}, "linux", home) == home / ".config/tidings/servers.json"
    assert user_catalog({}, "darwin", home) == home / "Library/Application Support/tidings/servers.json"
    assert user_catalog({"APPDATA": "/roaming"}, "win32", home) == Path("/roaming/tidings/servers.json")


def test_the_words_for_a_transport_stay_those_of_the_file() -> None:
    raw = {"type": "streamable-http", "url": "http://x/"}
    entry = ServerEntry.from_raw("x", raw)
    assert (entry.kind, entry.raw()) == ("http", raw)
    assert replace(entry, kind="sse").raw() == {"type": "sse", "url": "http://x/"}
    assert replace(entry, kind=None).raw() == {"url": "http://x/"}


def test_what_nobody_knows_is_not_shown_and_not_exported() -> None:
    entry = ServerEntry.from_raw("x", {"command": "x", "oauth": {"secret": "hush-hush"}, "disabled": True})
    assert entry.shown() == {"command": "x", "args": [], "oauth": "***", "disabled": True}
    assert "hush" not in json.dumps(exported([entry]))
    assert keep_secrets(ServerEntry.from_raw("x", entry.shown()), entry) == entry


def test_a_program_that_holds_the_lock_for_long_is_told(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.inspector.catalog import entry

    monkeypatch.setattr(entry, "_LOCK_SECONDS", 0.05)
    catalog.add(NOTES)
    with (
        files.locked(catalog.path.with_name(".servers.json.lock"), 1),
        pytest.raises(CatalogError, match="Another program has been writing"),
    ):
        catalog.add(WEATHER)


def test_a_file_that_never_stays_the_same_is_told(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.add(NOTES)
    monkeypatch.setattr(files, "same_state", lambda _one, _other: False)
    with pytest.raises(CatalogError, match="Another program keeps changing"):
        catalog.add(WEATHER)


def test_the_documentation_shows_an_entry_as_it_is_read() -> None:
    text = (Path(__file__).parents[2] / "docs/inspector.md").read_text("utf-8")
    raw = json.loads(text.partition("```json\n")[2].partition("```")[0])["mcpServers"]["weather"]
    entry = ServerEntry.from_raw("weather", raw)
    assert (entry.era, entry.auto_connect, entry.log_level, entry.timeouts["request"]) == ("legacy", True, "info", 20)
    assert not entry.others

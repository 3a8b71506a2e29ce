"""Every setting: its names, what it takes, and what is said of one that it does not take."""

import ipaddress
from pathlib import Path

import pytest

from tidings.web.settings import SETTINGS, BadSetting, Setting, Settings

DOCS = Path(__file__).parents[2] / "docs/web.md"


def named(name: str) -> Setting:
    return next(setting for setting in SETTINGS if setting.name == name)


def test_the_table_in_the_documentation_is_the_table() -> None:
    rows = [f"| `{each.option}` | `{each.variable}` | {each.shown} | {each.help} |" for each in SETTINGS]
    table = "\n".join(["| option | variable | default | meaning |", "|---|---|---|---|", *rows])
    assert table in DOCS.read_text("utf-8")


def test_each_setting_has_an_option_and_a_variable_of_the_same_name() -> None:
    assert (named("max_bytes").option, named("max_bytes").variable) == ("--max-bytes", "TIDINGS_WEB_MAX_BYTES")
    assert named("pdf").option == "--pdf/--no-pdf"
    assert len({setting.option for setting in SETTINGS}) == len(SETTINGS)


def test_the_defaults_of_the_original_are_kept() -> None:
    usual = Settings()
    assert (usual.max_bytes, usual.timeout, usual.max_redirects) == (10 * 1024 * 1024, 30, 5)
    assert (usual.requests_per_minute, usual.chunk_tokens, usual.cache_ttl) == (60, 4000, 300)
    assert (usual.allow_private, usual.render, usual.pdf, usual.robots) == ((), False, True, "optional")


def test_a_program_may_write_networks_and_domains_as_texts() -> None:
    settings = Settings(allow_private=("127.0.0.0/8",), allow_domain=("Example.org",))  # type: ignore[arg-type]
    assert settings.allow_private == (ipaddress.ip_network("127.0.0.0/8"),)
    assert settings.allow_domain == ("example.org",)


def test_a_program_may_write_each_value_as_the_command_line_does() -> None:
    settings = Settings(timeout="5m", max_bytes="1M", block_domain="example.com", store="pages.db", robots="Respect")  # type: ignore[arg-type]
    assert (settings.timeout, settings.max_bytes, settings.robots) == (300, 1024 * 1024, "respect")
    assert (settings.block_domain, settings.store) == (("example.com",), Path("pages.db"))
    network = ipaddress.ip_network("10.0.0.0/8")
    assert Settings(allow_private=network).allow_private == (network,)  # type: ignore[arg-type]


def test_what_a_program_gives_that_is_no_value_is_named() -> None:
    with pytest.raises(BadSetting, match="timeout: None is not a number"):
        Settings(timeout=None)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match=r"timeout: 'soon' is not a time\. Give seconds"):
        Settings(timeout="soon")  # type: ignore[arg-type]


def test_settings_that_cannot_be_are_refused_by_their_names() -> None:
    with pytest.raises(BadSetting, match="max_bytes: 1 is out of range"):
        Settings(max_bytes=1)
    with pytest.raises(BadSetting, match=r"--watch-min \(60 s\) is longer than --watch-max \(10 s\)"):
        Settings(watch_max=10)
    with pytest.raises(BadSetting, match="at most 1,000,000"):
        Settings(chunk_tokens=2_000_000)


@pytest.mark.parametrize("name", ["keep", "max_entries", "max_store", "watch_min"])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_store_without_room_and_looks_without_a_pause_are_refused(name: str, value: float) -> None:
    with pytest.raises(BadSetting, match=f"{name}: .* is out of range"):
        Settings(**{name: value})  # type: ignore[arg-type]


def test_each_default_is_shown_as_people_write_it() -> None:
    shown = {setting.name: setting.shown for setting in SETTINGS}
    assert (shown["max_bytes"], shown["read_memory"]) == ("10 MiB", "1 GiB")
    assert (shown["timeout"], shown["cache_ttl"], shown["keep"]) == ("30 s", "5 min", "1 d")
    assert (shown["max_entries"], shown["pdf"], shown["render"], shown["store"]) == ("1,000", "yes", "no", "none")

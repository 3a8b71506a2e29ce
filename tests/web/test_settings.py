"""Every setting: its names, what it takes, and what is said of one that it does not take."""

import ipaddress
from pathlib import Path

import pytest

from tidings.web.settings import SETTINGS, BadSetting, Setting, Settings, documented, from_texts

DOCS = Path(__file__).parents[2] / "docs/web.md"


def named(name: str) -> Setting:
    return next(setting for setting in SETTINGS if setting.name == name)


def test_the_table_in_the_documentation_is_the_table() -> None:
    assert documented() in DOCS.read_text("utf-8")


def test_each_setting_has_an_option_and_a_variable_of_the_same_name() -> None:
    assert (named("max_bytes").option, named("max_bytes").variable) == ("--max-bytes", "TIDINGS_WEB_MAX_BYTES")
    assert named("pdf").option == "--pdf/--no-pdf"
    assert len({setting.option for setting in SETTINGS}) == len(SETTINGS)


def test_the_defaults_of_the_original_are_kept() -> None:
    usual = Settings()
    assert (usual.max_bytes, usual.timeout, usual.max_redirects) == (10 * 1024 * 1024, 30, 5)
    assert (usual.requests_per_minute, usual.chunk_tokens, usual.cache_ttl) == (60, 4000, 300)
    assert (usual.allow_private, usual.render, usual.pdf, usual.robots) == ((), False, True, "optional")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_bytes", "500k", 512_000),
        ("max_bytes", "10 MiB", 10 * 1024 * 1024),
        ("max_bytes", "1g", 1024**3),
        ("max_bytes", "4096", 4096),
        ("timeout", "90s", 90),
        ("timeout", "1.5", 1.5),
        ("keep", "2h", 7200),
        ("keep", "1d", 86400),
        ("watch_min", "5m", 300),
        ("retries", "0", 0),
        ("pdf", "No", False),
        ("render", "on", True),
        ("robots", "Respect", "respect"),
        ("user_agent", "Bot/1.0", "Bot/1.0"),
        ("store", "pages.db", Path("pages.db")),
        ("allow_private", "10.0.0.0/8, ::1", (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))),
        ("block_domain", "*.Example.org.  a.b", ("example.org", "a.b")),
    ],
)
def test_a_text_is_read_as_people_write_it(name: str, text: str, value: object) -> None:
    assert from_texts({name: text}) == {name: value}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("max_bytes", "ten", "'ten' is no size: give bytes, or 500k, 10M, 1G."),
        ("max_bytes", "10", "10 is out of bounds: give 1,024 or more."),
        ("timeout", "5 weeks", "is no time: give seconds, or 90s, 5m, 2h, 1d."),
        ("timeout", "0", "0 is out of bounds: give 0.1 to 600."),
        ("retries", "-1", "'-1' is no whole number."),
        ("pdf", "perhaps", "'perhaps' is neither yes nor no."),
        ("robots", "never", "'never' is none of the choices: respect, optional, ignore."),
        ("user_agent", "a\nb", "give a text of one line."),
        ("store", "", "give the path of a file."),
        ("allow_private", "10.0.0.1/8", "'10.0.0.1/8' is no network"),
        ("allow_domain", "https://example.org/", "is no domain: give its name alone, as in example.org."),
    ],
)
def test_what_a_setting_does_not_take_is_said_with_what_it_takes(name: str, text: str, said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        from_texts({name: text})
    assert said in str(refused.value)


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
    with pytest.raises(BadSetting, match="timeout: None is no number"):
        Settings(timeout=None)  # type: ignore[arg-type]
    with pytest.raises(BadSetting, match="timeout: 'soon' is no time: give seconds"):
        Settings(timeout="soon")  # type: ignore[arg-type]


def test_settings_that_cannot_be_are_refused_by_their_names() -> None:
    with pytest.raises(BadSetting, match="max_bytes: 1 is out of bounds"):
        Settings(max_bytes=1)
    with pytest.raises(BadSetting, match=r"--watch-min \(60 s\) is longer than --watch-max \(10 s\)"):
        Settings(watch_max=10)
    with pytest.raises(BadSetting, match="at most 1,000,000"):
        Settings(chunk_tokens=2_000_000)


def test_a_command_line_can_be_made_of_a_setting_that_means_the_same_anywhere() -> None:
    assert named("keep").written(0.5) == ["--keep", "0.5"]
    assert named("store").written(Path("pages.db")) == ["--store", str(Path("pages.db").absolute())]
    assert named("pdf").written(False) == ["--no-pdf"]
    assert named("render").written(True) == ["--render"]
    assert named("block_domain").written(("a.b", "c.d")) == ["--block-domain", "a.b", "--block-domain", "c.d"]


def test_each_default_is_shown_as_people_write_it() -> None:
    shown = {setting.name: setting.shown for setting in SETTINGS}
    assert (shown["max_bytes"], shown["read_memory"]) == ("10 MiB", "1 GiB")
    assert (shown["timeout"], shown["cache_ttl"], shown["keep"]) == ("30 s", "5 min", "1 d")
    assert (shown["max_entries"], shown["pdf"], shown["render"], shown["store"]) == ("1,000", "yes", "no", "none")

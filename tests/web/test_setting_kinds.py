"""The kinds of settings, and their values from texts."""

import ipaddress
from pathlib import Path
from typing import Any

import pytest

from tidings.web.settings import MIB, SETTINGS, BadSetting, Settings

NAMED = {each.name: each for each in SETTINGS}


def test_a_setting_has_an_option_and_a_variable_of_the_same_name() -> None:
    assert (NAMED["max_bytes"].option, NAMED["max_bytes"].variable) == ("--max-bytes", "TIDINGS_WEB_MAX_BYTES")
    assert (NAMED["pdf"].option, NAMED["render"].option) == ("--pdf/--no-pdf", "--render")
    metavars = [NAMED[name].metavar for name in ("robots", "allow_private", "pdf")]
    assert metavars == ["respect|optional|ignore", "CIDR", ""]
    assert [each.name for each in SETTINGS if each.many] == ["allow_private", "allow_domain", "block_domain"]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_bytes", "500k", 512_000),
        ("max_bytes", "10 MiB", 10 * MIB),
        ("max_bytes", "1g", 1024**3),
        ("max_bytes", "4096", 4096),
        ("timeout", "90s", 90),
        ("timeout", "1.5", 1.5),
        ("keep", "2h", 7200),
        ("keep", "1d", 86400),
        ("retries", "0", 0),
        ("max_entries", "1_000", 1000),
        ("pdf", "No", False),
        ("render", "on", True),
        ("robots", "Ignore", "ignore"),
        ("user_agent", " Bot/1.0 ", "Bot/1.0"),
        ("store", "pages.db", Path("pages.db")),
        ("allow_private", "10.0.0.0/8, ::1", (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))),
        ("block_domain", "*.Example.org.  a.b,", ("example.org", "a.b")),
    ],
)
def test_a_text_is_read_as_people_write_it(name: str, text: str, value: object) -> None:
    assert NAMED[name].parse_all(text) == value
    assert getattr(Settings(**{name: text}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("max_bytes", "ten", "'ten' is not a size. Give bytes, or 500k, 10M, 1G."),
        ("max_bytes", "10", "10 is out of range. Give 1,024 or more."),
        ("timeout", "5 weeks", "is not a time. Give seconds, or 90s, 5m, 2h, 1d."),
        ("timeout", "0", "0 is out of range. Give 0.1 to 600."),
        ("retries", "-1", "'-1' is not a whole number."),
        ("retries", "_", "'_' is not a whole number."),
        ("pdf", "perhaps", "'perhaps' is neither yes nor no."),
        ("robots", "always", "'always' is not one of the choices: respect, optional, ignore."),
        ("user_agent", "a\nb", "Give one line of text."),
        ("store", "", "Give the path of a file."),
        ("allow_private", "10.0.0.1/8", "'10.0.0.1/8' is not a network"),
        ("block_domain", "https://example.org/", "is not a valid domain name. Use a host such as example.org."),
    ],
)
def test_a_text_that_a_setting_does_not_take_is_refused_with_what_it_takes(name: str, text: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        NAMED[name].parse_all(text)
    assert message in str(refused.value)
    with pytest.raises(BadSetting, match=f"^{name}: "):
        Settings(**{name: text})


def test_several_values_may_be_none_at_all() -> None:
    assert NAMED["block_domain"].parse_all(" ") == ()


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"allow_private": ("127.0.0.0/8",)}, (ipaddress.ip_network("127.0.0.0/8"),)),
        ({"allow_private": ipaddress.ip_network("::/8")}, (ipaddress.ip_network("::/8"),)),
        ({"block_domain": ["B.org", "a.b"]}, ("b.org", "a.b")),
        ({"timeout": 5}, 5),
    ],
)
def test_a_program_may_give_values_or_texts(given: dict[str, Any], value: object) -> None:
    [name] = given
    assert getattr(Settings(**given), name) == value


@pytest.mark.parametrize("value", [None, True, 0.01, 601])
def test_a_number_of_a_program_is_checked(value: Any) -> None:
    with pytest.raises(BadSetting, match="timeout: "):
        Settings(timeout=value)


def test_the_documentation_shows_defaults_as_people_write_them() -> None:
    shown = {each.name: each.shown for each in SETTINGS}
    assert (shown["max_bytes"], shown["read_memory"]) == ("10 MiB", "1 GiB")
    assert (shown["timeout"], shown["keep"], shown["retries"]) == ("30 s", "1 d", "2")
    assert (shown["pdf"], shown["render"], shown["store"], shown["block_domain"]) == ("yes", "no", "none", "none")

"""The kinds of settings, and their values from texts."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidings.web.settings import MIB, BadSetting, Network, setting, settings_of, settle


@dataclass(frozen=True)
class Settings:
    max_bytes: int = setting(10 * MIB, "size", "bytes of an answer", least=1024)
    memory: int = setting(2048 * MIB, "size", "bytes of memory")
    timeout: float = setting(30.0, "seconds", "for one request", least=0.1, most=600)
    keep: float = setting(86400.0, "seconds", "how long answers are kept")
    retries: int = setting(2, "count", "further tries", most=10_000)
    pdf: bool = setting(True, "flag", "read PDF files")
    render: bool = setting(False, "flag", "use a browser")
    robots: str = setting("ask", "choice", "when robots.txt counts", choices=("ask", "never"))
    agent: str = setting("Tidings", "text", "the name")
    private: tuple[Network, ...] = setting((), "networks", "networks that may be reached")
    domain: tuple[str, ...] = setting((), "domains", "domains that may be reached")
    store: Path | None = setting(None, "file", "where answers are kept")  # noqa: RUF009 - a field

    def __post_init__(self) -> None:
        settle(self, TABLE)


TABLE = settings_of(Settings)
NAMED = {each.name: each for each in TABLE}


def test_a_setting_has_an_option_and_a_variable_of_the_same_name() -> None:
    assert [each.name for each in TABLE][:3] == ["max_bytes", "memory", "timeout"]
    assert (NAMED["max_bytes"].option, NAMED["max_bytes"].variable) == ("--max-bytes", "TIDINGS_WEB_MAX_BYTES")
    assert (NAMED["pdf"].option, NAMED["render"].option) == ("--pdf/--no-pdf", "--render")
    assert [NAMED[name].metavar for name in ("robots", "private", "pdf")] == ["ask|never", "CIDR", ""]
    assert [each.name for each in TABLE if each.many] == ["private", "domain"]


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
        ("retries", "1_000", 1000),
        ("pdf", "No", False),
        ("render", "on", True),
        ("robots", "Never", "never"),
        ("agent", " Bot/1.0 ", "Bot/1.0"),
        ("store", "pages.db", Path("pages.db")),
        ("private", "10.0.0.0/8, ::1", (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1"))),
        ("domain", "*.Example.org.  a.b,", ("example.org", "a.b")),
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
        ("robots", "always", "'always' is not one of the choices: ask, never."),
        ("agent", "a\nb", "Give one line of text."),
        ("store", "", "Give the path of a file."),
        ("private", "10.0.0.1/8", "'10.0.0.1/8' is not a network"),
        ("domain", "https://example.org/", "is not a valid domain name. Use a host such as example.org."),
    ],
)
def test_a_text_that_a_setting_does_not_take_is_refused_with_what_it_takes(name: str, text: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        NAMED[name].parse_all(text)
    assert message in str(refused.value)
    with pytest.raises(BadSetting, match=f"^{name}: "):
        Settings(**{name: text})


def test_several_values_may_be_none_at_all() -> None:
    assert NAMED["domain"].parse_all(" ") == ()


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"private": ("127.0.0.0/8",)}, (ipaddress.ip_network("127.0.0.0/8"),)),
        ({"private": ipaddress.ip_network("::/8")}, (ipaddress.ip_network("::/8"),)),
        ({"domain": ["B.org", "a.b"]}, ("b.org", "a.b")),
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
    shown = {each.name: each.shown for each in TABLE}
    assert (shown["max_bytes"], shown["memory"]) == ("10 MiB", "2 GiB")
    assert (shown["timeout"], shown["keep"], shown["retries"]) == ("30 s", "1 d", "2")
    assert (shown["pdf"], shown["render"], shown["store"], shown["domain"]) == ("yes", "no", "none", "none")
    first = NAMED["max_bytes"]
    assert (first.option, first.variable, first.help) == ("--max-bytes", "TIDINGS_WEB_MAX_BYTES", "bytes of an answer")

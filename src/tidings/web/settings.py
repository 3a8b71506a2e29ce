"""Every limit and choice of the web server, in one table.

A field of `Settings` is a setting. From the table come the options of `tidings web` (`--max-bytes`), the variables of
the environment (`TIDINGS_WEB_MAX_BYTES`) and the table in the documentation; from `Settings` the parts of the server
are made. Nothing here reads the environment: the command does.

May import: nothing but the standard library.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

from tidings.web.setting import MIB, BadSetting, Kind, Network, Setting

__all__ = ["SETTINGS", "BadSetting", "Robots", "Setting", "Settings", "documented", "from_texts"]

Robots = Literal["respect", "optional", "ignore"]


def _setting(default: Any, kind: Kind, help_: str, **bounds: Any) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help_, **bounds})


@dataclass(frozen=True)
class Settings:
    """The settings of one server.

    Raises:
        BadSetting: A value is not what its setting takes, or two of them contradict each other.
    """

    max_bytes: int = _setting(
        10 * MIB, "size", "the most that a page may have, as it comes and again when it is unpacked", least=1024
    )
    timeout: float = _setting(
        30.0, "seconds", "for everything together: names, redirects, retries, the last byte", least=0.1, most=600
    )
    max_redirects: int = _setting(5, "count", "redirects that are followed", most=50)
    retries: int = _setting(2, "count", "further tries after a failure that may pass", most=10)
    requests_per_minute: int = _setting(60, "count", "requests to one host in a minute", least=1)
    per_host: int = _setting(4, "count", "requests to one host at the same time", least=1)
    at_once: int = _setting(32, "count", "requests at the same time, to all hosts together", least=1)
    user_agent: str = _setting(
        "Tidings", "text", "what sites see; its first word is the name that robots.txt knows it by"
    )
    robots: Robots = _setting(  # noqa: RUF009 - a field
        "optional",
        "choice",
        "when robots.txt counts: `respect` always, `optional` unless a call has `respect_robots` off, `ignore` never",
        choices=("respect", "optional", "ignore"),
    )
    allow_private: tuple[Network, ...] = _setting(
        (), "networks", "private addresses that may be fetched from, as in 10.0.0.0/8; otherwise none may"
    )
    allow_domain: tuple[str, ...] = _setting(
        (), "domains", "fetch from these domains and those below them alone, as in example.org"
    )
    block_domain: tuple[str, ...] = _setting((), "domains", "never fetch from these domains and those below them")
    cache_ttl: float = _setting(300.0, "seconds", "a page this fresh is answered without asking the site again")
    keep: float = _setting(86400.0, "seconds", "how long a fetched version can be read", least=1)
    max_entries: int = _setting(1000, "count", "versions that are kept; the oldest go first", least=1)
    max_store: int = _setting(256 * MIB, "size", "what all of them may have together", least=MIB)
    store: Path | None = _setting(  # noqa: RUF009 - a field
        None, "file", "keep pages and watches in this file, beyond the end of the process"
    )
    answer_tokens: int = _setting(8000, "count", "tokens of text in an answer, unless the call says", least=100)
    chunk_tokens: int = _setting(4000, "count", "tokens in a chunk, unless the call says", least=50)
    pdf: bool = _setting(True, "flag", "read PDF files")
    workers: int = _setting(0, "count", "processes that read pages; 0: one for each core, four at the most", most=64)
    read_timeout: float = _setting(20.0, "seconds", "for reading one page, after which it is given up", least=0.1)
    read_memory: int = _setting(1024 * MIB, "size", "memory of one process that reads pages", least=128 * MIB)
    render: bool = _setting(False, "flag", "offer rendering with Chromium, which `tidings[render]` brings")
    watch_min: float = _setting(60.0, "seconds", "the shortest time between two looks at a watched page", least=0.1)
    watch_max: float = _setting(86400.0, "seconds", "the longest time between two looks at a watched page", least=0.1)
    max_watches: int = _setting(10_000, "count", "pages that may be watched at the same time")

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            try:
                self._settle(setting, getattr(self, setting.name))
            except BadSetting as error:
                raise BadSetting(f"{setting.name}: {error}") from None
        if self.watch_min > self.watch_max:
            raise BadSetting(
                f"--watch-min ({self.watch_min:g} s) is longer than --watch-max ({self.watch_max:g} s): make the one "
                "smaller or the other greater."
            )
        if self.chunk_tokens > 1_000_000 or self.answer_tokens > 1_000_000:
            raise BadSetting("--chunk-tokens and --answer-tokens are at most 1,000,000.")

    def _settle(self, setting: Setting, value: Any) -> None:
        # A program may write "10.0.0.0/8" and "5m", as people do.
        if isinstance(value, str):
            value = _value(setting, value)
        elif setting.many:
            several = cast("tuple[Any, ...]", value if isinstance(value, tuple | list | set | frozenset) else (value,))
            value = tuple(setting.parse(each) if isinstance(each, str) else each for each in several)
        setting.check(value)
        object.__setattr__(self, setting.name, value)


def _table() -> tuple[Setting, ...]:
    return tuple(Setting(name=each.name, default=each.default, **each.metadata) for each in fields(Settings))


def from_texts(given: Mapping[str, str]) -> dict[str, Any]:
    """Values from texts by the names of their settings, as the environment has them: several are parted by commas.

    Raises:
        BadSetting: One of them is not what its setting takes.
    """
    known = {setting.name: setting for setting in SETTINGS}
    return {name: _value(known[name], text) for name, text in given.items()}


def _value(setting: Setting, text: str) -> Any:
    words = [word for word in re.split(r"[,\s]+", text) if word]
    return tuple(map(setting.parse, words)) if setting.many else setting.parse(text)


def documented() -> str:
    """The table of all settings, as the documentation has it."""
    rows = [f"| `{each.option}` | `{each.variable}` | {each.shown} | {each.help} |" for each in SETTINGS]
    return "\n".join(["| option | variable | default | is |", "|---|---|---|---|", *rows])


SETTINGS: Final = _table()
"""All of them, in the order of the documentation."""

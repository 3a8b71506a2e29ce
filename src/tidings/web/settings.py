"""Every limit and choice of the web server, in one table.

A field of `Settings` is a setting. From the table come the options of `tidings web` (`--max-bytes`), the variables of
the environment (`TIDINGS_WEB_MAX_BYTES`) and the table in the documentation. The parts of the server are made from
`Settings`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tidings._kit.settings import MIB, BadSetting, Network, Setting, setting, settings_of, settle

__all__ = ["SETTINGS", "BadSetting", "Robots", "Setting", "Settings"]

Robots = Literal["respect", "optional", "ignore"]


@dataclass(frozen=True)
class Settings:
    """The settings of one server.

    Raises `BadSetting` if a setting does not take its value, or two of them contradict each other.
    """

    max_bytes: int = setting(
        10 * MIB, "size", "the size limit of a page, as received and again when decompressed", least=1024
    )
    timeout: float = setting(
        30.0,
        "seconds",
        "the time limit of a whole fetch, including name lookup, redirects and retries",
        least=0.1,
        most=600,
    )
    max_redirects: int = setting(5, "count", "the maximum number of redirects to follow", most=50)
    retries: int = setting(2, "count", "the maximum number of retries after a temporary failure", most=10)
    requests_per_minute: int = setting(60, "count", "the maximum number of requests to one host per minute", least=1)
    per_host: int = setting(4, "count", "the maximum number of requests to one host at the same time", least=1)
    at_once: int = setting(32, "count", "the maximum number of requests to all hosts at the same time", least=1)
    user_agent: str = setting(
        "Tidings", "text", "the User-Agent header; its first word selects the rules in robots.txt"
    )
    robots: Robots = setting(  # noqa: RUF009 - a field
        "optional",
        "choice",
        "obey robots.txt: `respect` always, `optional` unless a call sets `respect_robots=false`, `ignore` never",
        choices=("respect", "optional", "ignore"),
    )
    allow_private: tuple[Network, ...] = setting((), "networks", "private networks to allow, such as 10.0.0.0/8")
    allow_domain: tuple[str, ...] = setting(
        (), "domains", "fetch only from these domains and their subdomains, such as example.org"
    )
    block_domain: tuple[str, ...] = setting((), "domains", "never fetch from these domains and their subdomains")
    cache_ttl: float = setting(300.0, "seconds", "how long a stored page is used without asking the site again")
    keep: float = setting(86400.0, "seconds", "how long a fetched version is kept", least=1)
    max_entries: int = setting(
        1000, "count", "the maximum number of versions to keep; the oldest are removed first", least=1
    )
    max_store: int = setting(256 * MIB, "size", "the size limit of all versions together", least=MIB)
    store: Path | None = setting(  # noqa: RUF009 - a field
        None, "file", "keep pages and watches in this file, so that they survive a restart"
    )
    answer_tokens: int = setting(8000, "count", "the default length of an answer's text, in tokens", least=100)
    chunk_tokens: int = setting(4000, "count", "the default size of a chunk, in tokens", least=50)
    pdf: bool = setting(True, "flag", "read PDF files")
    workers: int = setting(0, "count", "processes that read pages; 0 means one for each core, at most four", most=64)
    read_timeout: float = setting(20.0, "seconds", "the time limit for reading one page", least=0.1)
    read_memory: int = setting(1024 * MIB, "size", "the memory limit of one process that reads pages", least=128 * MIB)
    render: bool = setting(False, "flag", "offer rendering with Chromium; needs the extra `render`")
    watch_min: float = setting(60.0, "seconds", "the shortest time between two checks of a watched page", least=0.1)
    watch_max: float = setting(86400.0, "seconds", "the longest time between two checks of a watched page", least=0.1)
    max_watches: int = setting(10_000, "count", "the maximum number of pages to watch at the same time")

    def __post_init__(self) -> None:
        settle(self, SETTINGS)
        if self.watch_min > self.watch_max:
            raise BadSetting(
                f"--watch-min ({self.watch_min:g} s) is longer than --watch-max ({self.watch_max:g} s). Make one "
                "of them fit the other."
            )
        if self.chunk_tokens > 1_000_000 or self.answer_tokens > 1_000_000:
            raise BadSetting("--chunk-tokens and --answer-tokens are at most 1,000,000.")


SETTINGS: Final = settings_of(Settings, prefix="TIDINGS_WEB_")
"""All settings, in the order of the documentation."""

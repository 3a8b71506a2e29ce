"""Every limit and choice of the web server, in one table.

A field of `Settings` is a setting. From the table come the options of `tidings web`, their variables and the table in
the documentation. Nothing here reads the environment: the command does.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

MIB: Final = 1024 * 1024

Kind = Literal["size", "seconds", "count", "flag", "choice", "text", "networks", "domains", "file", "secrets", "proxy"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Robots = Literal["respect", "optional", "ignore"]

_METAVARS: Final = {"count": "NUMBER", "flag": "", "networks": "CIDR", "domains": "DOMAIN", "proxy": "URL"}
_BYTES: Final = {"": 1, "k": 1024, "m": MIB, "g": 1024 * MIB}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

SECRET: Final = re.compile(r"([A-Z_][A-Z0-9_]*)@([^\s,@/]+)")  # a variable and the domain that may get it

# The address of a proxy; its password is the name of a variable.
PROXY: Final = re.compile(
    r"http://(?:(?P<user>[^\s:@/]+):\$(?P<password>[A-Z_][A-Z0-9_]*)@)?(?P<host>[\w.-]+):(?P<port>\d{1,5})/?", re.ASCII
)


class BadSetting(ValueError):
    """A setting has an invalid value. The message says which values are valid."""


@dataclass(frozen=True)
class Setting:
    """One setting: its name, the values it takes, and its purpose."""

    name: str
    kind: Kind
    default: Any
    help: str  # One phrase without a capital and a full stop
    least: float = 0  # The smallest number, of a size, a time or a count
    most: float = float("inf")
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The option of the command: `--max-bytes`; `--pdf/--no-pdf` for a flag that is on by default."""
        plain = self.name.replace("_", "-")
        return f"--{plain}/--no-{plain}" if self.kind == "flag" and self.default else f"--{plain}"

    @property
    def variable(self) -> str:
        return f"TIDINGS_WEB_{self.name.upper()}"

    @property
    def many(self) -> bool:
        """True if it may be given several times; its value is then a tuple."""
        return self.kind in ("networks", "domains")

    @property
    def metavar(self) -> str:
        return "|".join(self.choices) if self.kind == "choice" else _METAVARS.get(self.kind, self.kind.upper())

    @property
    def shown(self) -> str:
        """The default as people write it: "10 MiB", "5 min", "yes", "none"."""
        if self.default in ((), None, ""):
            return "none"
        if self.kind == "flag":
            return "yes" if self.default else "no"
        if self.kind == "size":
            gib = self.default % (1024 * MIB) == 0
            return f"{self.default // (1024 * MIB)} GiB" if gib else f"{self.default // MIB} MiB"
        if self.kind == "seconds":
            units = (("d", 86400), ("h", 3600), ("min", 60))
            unit, each = next(((unit, each) for unit, each in units if self.default % each == 0), ("s", 1))
            return f"{self.default / each:g} {unit}"
        return f"{self.default:,}" if self.kind == "count" else str(self.default)

    def parse(self, text: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - one for each kind
        """Returns one value from a text: of a setting that may be given several times, one of its values."""
        text = text.strip()
        match self.kind:
            case "size":
                return int(self._number(text, _BYTES, "size. Give bytes, or 500k, 10M, 1G"))
            case "seconds":
                return self._number(text, _SECONDS, "time. Give seconds, or 90s, 5m, 2h, 1d")
            case "count":
                if not re.fullmatch(r"[0-9](?:_?[0-9]){0,11}", text):
                    raise BadSetting(f"{text!r} is not a whole number.")
                return self.check(int(text))
            case "flag":
                if text.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off", ""):
                    raise BadSetting(f"{text!r} is neither yes nor no.")
                return text.lower() in ("1", "true", "yes", "on")
            case "choice":
                if text.lower() not in self.choices:
                    raise BadSetting(f"{text!r} is not one of the choices: {', '.join(self.choices)}.")
                return text.lower()
            case "text":
                if not text or not text.isprintable():
                    raise BadSetting("Give one line of text.")
                return text
            case "secrets":
                if wrong := [each for each in re.split(r"[,\s]+", text) if each and not SECRET.fullmatch(each)]:
                    raise BadSetting(f"{wrong[0]!r} is not a variable with its domain. Write NAME@example.org.")
                return text
            case "proxy":
                found = PROXY.fullmatch(text)
                if text and not (found and 0 < int(found["port"]) < 65_536):
                    how = "Write http://host:3128 or http://user:$PASSWORD@host:3128; $PASSWORD names a variable"
                    raise BadSetting(f"This is not the address of a proxy. {how} of the environment.")
                return text
            case "networks":
                try:
                    return ipaddress.ip_network(text)
                except ValueError as error:
                    cure = "Give an address or a network, such as 10.0.0.0/8 or ::1"
                    raise BadSetting(f"{text!r} is not a network ({error}). {cure}.") from None
            case "domains":
                plain = text.lower().removeprefix("*.").strip(".")
                if not re.fullmatch(r"[^\s/:@?#*]{1,253}", plain):
                    raise BadSetting(f"{text!r} is not a valid domain name. Use a host such as example.org.")
                return plain
            case "file":
                if not text:
                    raise BadSetting("Give the path of a file.")
                return Path(text)

    def _number(self, text: str, units: Mapping[str, int], what: str) -> float:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.lower())
        unit = (found[2].removesuffix("ib").removesuffix("b") if units is _BYTES else found[2]) if found else "?"
        if found is None or unit not in units:
            raise BadSetting(f"{text!r} is not a {what}.")
        return self.check(float(found[1]) * units[unit])

    def parse_all(self, text: str) -> Any:
        """Returns the whole value from a text as a variable has it: several values are parted by commas or spaces."""
        return tuple(map(self.parse, re.findall(r"[^,\s]+", text))) if self.many else self.parse(text)

    def settled(self, value: Any) -> Any:
        """Returns a value that a program gave, checked; texts are parsed, and one of several becomes a tuple."""
        if isinstance(value, str):
            value = self.parse_all(value)
        elif self.many:
            several = cast("tuple[Any, ...]", value if isinstance(value, tuple | list | set | frozenset) else (value,))
            value = tuple(self.parse(each) if isinstance(each, str) else each for each in several)
        return self.check(value)

    def check(self, value: Any) -> Any:
        """Returns the value. Raises `BadSetting` if a number is too small or too large, or is not a number."""
        if self.kind not in ("size", "seconds", "count"):
            return value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadSetting(f"{value!r} is not a number.")
        if not self.least <= value <= self.most:
            bounds = f"{self.least:,g} or more" if self.most == float("inf") else f"{self.least:,g} to {self.most:,g}"
            raise BadSetting(f"{value:,g} is out of range. Give {bounds}.")
        return value


def setting(default: Any, kind: Kind, help_: str, **bounds: Any) -> Any:
    """Declares a field of a dataclass as a setting. `bounds` are `least`, `most` and `choices` of `Setting`."""
    return field(default=default, metadata={"kind": kind, "help": help_, **bounds})


@dataclass(frozen=True)
class Settings:
    """The settings of one web server.

    Raises `BadSetting` if a value is not valid, or if two settings contradict each other.
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
        "when to obey robots.txt: always (`respect`), unless a call sets `respect_robots=false` (`optional`), "
        "or never (`ignore`)",
        choices=("respect", "optional", "ignore"),
    )
    allow_private: tuple[Network, ...] = setting((), "networks", "private networks to allow, such as 10.0.0.0/8")
    allow_domain: tuple[str, ...] = setting(
        (), "domains", "fetch only from these domains and their subdomains, such as example.org"
    )
    block_domain: tuple[str, ...] = setting((), "domains", "never fetch from these domains and their subdomains")
    secrets: str = setting(
        "",
        "secrets",
        "environment variables that a watch may send as `$NAME`, each to one domain, such as TOKEN@shop.example",
    )
    proxy: str = setting(
        "", "proxy", "send all requests through this HTTP proxy, such as http://user:$PASSWORD@proxy.example:3128"
    )
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
        for each in SETTINGS:
            try:
                object.__setattr__(self, each.name, each.settled(getattr(self, each.name)))
            except BadSetting as error:
                raise BadSetting(f"{each.name}: {error}") from None
        if self.watch_min > self.watch_max:
            raise BadSetting(
                f"--watch-min ({self.watch_min:g} s) is longer than --watch-max ({self.watch_max:g} s). Make one "
                "of them fit the other."
            )
        if self.chunk_tokens > 1_000_000 or self.answer_tokens > 1_000_000:
            raise BadSetting("--chunk-tokens and --answer-tokens are at most 1,000,000.")


SETTINGS: Final = tuple(Setting(name=each.name, default=each.default, **each.metadata) for each in fields(Settings))
"""All settings, in the order of the documentation."""

"""A bus by its URL: for settings that are texts, such as `LiveServer(bus="nats://broker")`.

| text | bus |
|---|---|
| `memory:` | in this process |
| `sqlite:///absolute/path.db`, `sqlite:relative/path.db` | in a file of this machine |
| `nats://host`, `tls://host`; several with commas between | in NATS, over TLS |
| `redis://host`, `rediss://host`, and the other URLs of a `RedisBus` | in Redis or Valkey, over TLS |

Options follow a `?`, as in `redis://host?prefix=news&entries=1000`. All have `entries` and `age` (seconds), which are
their history. What the others mean is told by the class of the bus.

| bus | more options |
|---|---|
| sqlite | `poll`, `timeout` (seconds), `durable` (yes or no) |
| nats | `prefix`, `replicas`, `buffer`, `timeout`, `credentials` (a file) |
| redis | `prefix`, `buffer`, `timeout`, `poll`, `durable`, and those of its URL |

An engine is imported only when it is asked for. What is wrong with a text is said without showing it, as it may hold a
password.

May import: `changes`, `errors`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from tidings.bus import Bus, History
from tidings.bus.memory import MemoryBus
from tidings.bus.redis.connection import SCHEMES as REDIS_SCHEMES
from tidings.bus.redis.connection import options_of, unknown

__all__ = ["bus_from_url"]


def bus_from_url(text: str) -> Bus:
    """The bus that `text` names, not yet entered.

    Raises:
        ValueError: It names none, or an option is unknown or has a value of the wrong kind.
        ImportError: The package of this engine is not installed; how to install it is said.
    """
    scheme, colon, _ = text.partition(":")
    if not colon or not scheme.replace("+", "").isalnum():
        raise ValueError("A bus is named by a URL, as in 'memory:', 'sqlite:///path/to/bus.db' or 'redis://host'")
    if scheme not in _BUSES:
        raise ValueError(f"There is {unknown('bus', scheme, _BUSES)}")
    make, known = _BUSES[scheme]
    place, _, query = text.partition("?")
    return make(_Url(scheme, place, *_options(scheme, query, known)))


@dataclass(frozen=True, slots=True)
class _Url:
    """A URL, taken apart."""

    scheme: str
    place: str = field(repr=False)
    """All before the options."""
    options: dict[str, Any]
    """Those of the bus."""
    others: dict[str, str] = field(repr=False)
    """Those of the server behind it, which reads them itself."""


def _options(scheme: str, query: str, known: frozenset[str]) -> tuple[dict[str, Any], dict[str, str]]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    of_server = options_of(scheme) if scheme in REDIS_SCHEMES else frozenset[str]()
    for name in given:
        if name not in known | of_server:
            raise ValueError(f"The URL of a {scheme} bus has {unknown('option', name, known | of_server)}")
    own = {name: _read(name, value) for name, value in given.items() if name in known}
    limits = {name: own.pop(name) for name in ("entries", "age") if name in own}
    return own | {"history": History(**limits)}, {name: value for name, value in given.items() if name not in known}


def _memory(url: _Url) -> Bus:
    if url.place != "memory:":
        raise ValueError("A bus in memory is named 'memory:', and nothing follows but options")
    return MemoryBus(**url.options)


def _sqlite(url: _Url) -> Bus:
    from tidings.bus.sqlite import SqliteBus  # noqa: PLC0415 - only when it is asked for

    path = unquote(url.place.removeprefix("sqlite:"))
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(
            "The file of a bus is named by sqlite:///absolute/path.db, with three slashes, or sqlite:relative/path.db"
        )
    if path.startswith("/"):
        path = "/" + path.lstrip("/")
    if not path.strip("/") or path == ":memory:":
        raise ValueError("A SQLite bus needs a file, as in sqlite:///path/to/bus.db. One in memory is named 'memory:'.")
    return SqliteBus(path, **url.options)


def _nats(url: _Url) -> Bus:
    from tidings.bus.nats import NatsBus  # noqa: PLC0415 - only when it is asked for

    return NatsBus(url.place, **url.options)


def _redis(url: _Url) -> Bus:
    from tidings.bus.redis import RedisBus  # noqa: PLC0415 - only when it is asked for

    return RedisBus(f"{url.place}?{urlencode(url.others)}" if url.others else url.place, **url.options)


_HISTORY: Final = frozenset({"entries", "age"})
_BUSES: Final[dict[str, tuple[Callable[[_Url], Bus], frozenset[str]]]] = {
    "memory": (_memory, _HISTORY),
    "sqlite": (_sqlite, _HISTORY | {"poll", "timeout", "durable"}),
    **dict.fromkeys(("nats", "tls"), (_nats, _HISTORY | {"prefix", "replicas", "buffer", "timeout", "credentials"})),
    **dict.fromkeys(REDIS_SCHEMES, (_redis, _HISTORY | {"prefix", "buffer", "timeout", "poll", "durable"})),
}

_WHOLE: Final = frozenset({"entries", "buffer", "replicas"})
_SECONDS: Final = frozenset({"age", "timeout", "poll"})
_SWITCHES: Final = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}


def _read(name: str, value: str) -> Any:
    if name in _WHOLE:
        if not (value.isascii() and value.isdecimal()):
            raise ValueError(f"The option {name} of a bus is a whole number, not {value!r}")
        return int(value)
    if name in _SECONDS:
        return _number(name, value)
    if name == "durable":
        if value.lower() not in _SWITCHES:
            raise ValueError(f"The option {name} of a bus is yes or no, not {value!r}")
        return _SWITCHES[value.lower()]
    return value


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"The option {name} of a bus is a number of seconds, not {value!r}")
    return number

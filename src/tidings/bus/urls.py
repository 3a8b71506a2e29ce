"""`bus_from_url`: a bus from a text, for settings such as `LiveServer(bus="nats://broker")`.

| text | bus |
|---|---|
| `memory:` | in this process |
| `sqlite:///absolute/path.db`, `sqlite:relative/path.db` | in a file of this machine |
| `nats://host`, `tls://host`; several separated by commas | in NATS, over TLS |
| `redis://host`, `rediss://host`, and the other URLs of a `RedisBus` | in Redis or Valkey, over TLS |

Options follow a `?`, as in `redis://host?prefix=news&entries=1000`. All buses have `entries` and `age` (seconds), which
are their history.

| bus | more options |
|---|---|
| sqlite | `poll`, `timeout` (seconds), `durable` (yes or no) |
| nats | `prefix`, `replicas`, `buffer`, `timeout`, `credentials` (a file) |
| redis | `prefix`, `buffer`, `timeout`, `poll`, `durable`, and those of its URL |

An engine is imported only when a URL names it. Errors never show the text: it may hold a password.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from tidings.bus import Bus, History
from tidings.bus.memory import MemoryBus
from tidings.bus.shared import unknown

__all__ = ["bus_from_url"]


def bus_from_url(text: str) -> Bus:
    """Returns the bus that `text` names, not yet entered.

    Raises:
        ValueError: The text is not the URL of a bus, or an option is unknown or has a wrong value.
        ImportError: The package of the engine is not installed; the error says how to install it.
    """
    scheme, colon, _ = text.partition(":")
    if not colon or not scheme.replace("+", "").isalnum():
        raise ValueError("A bus needs a URL, such as 'memory:', 'sqlite:///path/to/bus.db' or 'redis://host'")
    if scheme not in _BUSES:
        raise ValueError(f"There is {unknown('bus', scheme, _BUSES)}")
    make, known = _BUSES[scheme]
    place, _, query = text.partition("?")
    return make(_Url(scheme, place, *_options(scheme, query, known)))


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str
    place: str = field(repr=False)
    """Everything before the options."""
    options: dict[str, Any]
    others: dict[str, str] = field(repr=False)
    """Options for the server behind the bus."""


def _options(scheme: str, query: str, known: frozenset[str]) -> tuple[dict[str, Any], dict[str, str]]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    of_server = frozenset[str]()
    if scheme in _REDIS:
        from tidings.bus.redis.address import options_of  # noqa: PLC0415 - only for these URLs

        of_server = options_of(scheme)
    for name in given:
        if name not in known | of_server:
            raise ValueError(f"The URL of a {scheme} bus has {unknown('option', name, known | of_server)}")
    own = {name: _read(name, value) for name, value in given.items() if name in known}
    limits = {name: own.pop(name) for name in ("entries", "age") if name in own}
    return own | {"history": History(**limits)}, {name: value for name, value in given.items() if name not in known}


def _memory(url: _Url) -> Bus:
    if url.place != "memory:":
        raise ValueError("A bus in memory is named 'memory:'; only options may follow")
    return MemoryBus(**url.options)


def _sqlite(url: _Url) -> Bus:
    from tidings.bus.sqlite import SqliteBus  # noqa: PLC0415 - only for these URLs

    path = unquote(url.place.removeprefix("sqlite:"))
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError("Write sqlite:///absolute/path.db with three slashes, or sqlite:relative/path.db")
    if path.startswith("/"):
        path = "/" + path.lstrip("/")
    if not path.strip("/") or path == ":memory:":
        raise ValueError("A SQLite bus needs a file, as in sqlite:///path/to/bus.db. One in memory is named 'memory:'.")
    return SqliteBus(path, **url.options)


def _nats(url: _Url) -> Bus:
    from tidings.bus.nats import NatsBus  # noqa: PLC0415 - only for these URLs

    return NatsBus(url.place, **url.options)


def _redis(url: _Url) -> Bus:
    from tidings.bus.redis import RedisBus  # noqa: PLC0415 - only for these URLs

    return RedisBus(f"{url.place}?{urlencode(url.others)}" if url.others else url.place, **url.options)


_HISTORY: Final = frozenset({"entries", "age"})
_REDIS: Final = (
    *("redis", "rediss", "valkey", "valkeys", "unix"),
    *(f"{scheme}+sentinel" for scheme in ("redis", "rediss", "valkey", "valkeys")),
)
_BUSES: Final[dict[str, tuple[Callable[[_Url], Bus], frozenset[str]]]] = {
    "memory": (_memory, _HISTORY),
    "sqlite": (_sqlite, _HISTORY | {"poll", "timeout", "durable"}),
    **dict.fromkeys(("nats", "tls"), (_nats, _HISTORY | {"prefix", "replicas", "buffer", "timeout", "credentials"})),
    **dict.fromkeys(_REDIS, (_redis, _HISTORY | {"prefix", "buffer", "timeout", "poll", "durable"})),
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
            raise ValueError(f"The bus option {name} must be a whole number, not {value!r}")
        return int(value)
    if name in _SECONDS:
        return _number(name, value)
    if name == "durable":
        if value.lower() not in _SWITCHES:
            raise ValueError(f"The bus option {name} must be yes or no, not {value!r}")
        return _SWITCHES[value.lower()]
    return value


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ValueError(f"The bus option {name} must be a number of seconds, not {value!r}")
    return number

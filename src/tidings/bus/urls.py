"""`bus_from_url`: makes a bus from a string, for settings such as `LiveServer(bus="nats://broker")`.

| URL | bus |
|---|---|
| `memory:` | `MemoryBus` |
| `sqlite:///absolute/path.db` or `sqlite:relative/path.db` | `SqliteBus` |
| `nats://host` or `tls://host`, or several separated by commas | `NatsBus` |
| `redis://host` or `rediss://host` (its `url` has more forms) | `RedisBus` |

Options follow a `?`: `redis://host?prefix=news&entries=1000`. All have `entries` and `age` (seconds) of the `History`.
An engine is imported only when a URL names it. Errors never show the URL, because it may contain a password.
"""

import math
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from tidings.bus import Bus, History
from tidings.bus.memory import MemoryBus
from tidings.bus.redis.address import SCHEMES, options_of, unknown

__all__ = ["bus_from_url"]

_ENGINES: Final = {
    "memory": "memory",
    "sqlite": "sqlite",
    "nats": "nats",
    "tls": "nats",
    **dict.fromkeys(SCHEMES, "redis"),
}
_OPTIONS: Final = {
    "memory": frozenset({"entries", "age"}),
    "sqlite": frozenset({"entries", "age", "poll", "timeout", "durable"}),
    "nats": frozenset({"entries", "age", "prefix", "replicas", "buffer", "timeout", "credentials"}),
    "redis": frozenset({"entries", "age", "prefix", "buffer", "timeout", "poll", "durable"}),
}
_WHOLE: Final = frozenset({"entries", "buffer", "replicas"})
_SECONDS: Final = frozenset({"age", "timeout", "poll"})
_SWITCHES: Final[dict[str, bool]] = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}


def bus_from_url(text: str) -> Bus:
    """Returns the bus that `text` names, not yet entered.

    Raises:
        ValueError: The text is not the URL of a bus, or an option is unknown or has a wrong value.
        ImportError: The package of the engine is not installed. The error says how to install it.
    """
    scheme, colon, _ = text.partition(":")
    if not colon or not scheme.isalnum():
        raise ValueError("A bus needs a URL, such as 'memory:', 'sqlite:///path/to/bus.db' or 'redis://host'")
    if scheme not in _ENGINES:
        raise ValueError(f"There is {unknown('bus', scheme, _ENGINES)}")
    place, _, query = text.partition("?")
    options, others = _options(scheme, query)
    match _ENGINES[scheme]:
        case "memory":
            if place != "memory:":
                raise ValueError("A bus in memory is named 'memory:'; only options may follow")
            return MemoryBus(**options)
        case "sqlite":
            from tidings.bus.sqlite import SqliteBus  # noqa: PLC0415 - only for these URLs

            path = unquote(place.removeprefix("sqlite:"))
            if path.startswith("//") and not path.startswith("///"):
                raise ValueError("Write sqlite:///absolute/path.db with three slashes, or sqlite:relative/path.db")
            path = "/" + path.lstrip("/") if path.startswith("/") else path
            if not path.strip("/") or path == ":memory:":
                how = "as in sqlite:///path/to/bus.db. One in memory is named 'memory:'"
                raise ValueError(f"A SQLite bus needs a file, {how}.")
            return SqliteBus(path, **options)
        case "nats":
            from tidings.bus.nats import NatsBus  # noqa: PLC0415 - only for these URLs

            return NatsBus(place, **options)
        case _:
            from tidings.bus.redis import RedisBus  # noqa: PLC0415 - only for these URLs

            return RedisBus(f"{place}?{urlencode(others)}" if others else place, **options)


def _options(scheme: str, query: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the options of the bus, and those of the server behind it."""
    own = _OPTIONS[_ENGINES[scheme]]
    known = own | options_of(scheme) if scheme in SCHEMES else own
    options: dict[str, Any] = {}
    others: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise ValueError(f"The URL of a {scheme} bus has {unknown('option', name, known)}")
        if name in own:
            options[name] = _read(name, value)
        else:
            others[name] = value
    limits = {name: options.pop(name) for name in ("entries", "age") if name in options}
    return options | {"history": History(**limits)}, others


def _read(name: str, value: str) -> Any:
    if name in _WHOLE:
        if not (value.isascii() and value.isdecimal()):
            raise ValueError(f"The bus option {name} must be a whole number, not {value!r}")
        return int(value)
    if name in _SECONDS:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise ValueError(f"The bus option {name} must be a number of seconds, not {value!r}")
        return number
    if name == "durable":
        if value.lower() not in _SWITCHES:
            raise ValueError(f"The bus option {name} must be yes or no, not {value!r}")
        return _SWITCHES[value.lower()]
    return value

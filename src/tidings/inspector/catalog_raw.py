"""An entry as a file has it, taken apart: its shape, what Tidings alone knows of, and what it does not know."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from tidings.errors import BadTarget

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_KNOWN: Final = frozenset({"command", "args", "env", "cwd", "url", "headers", "tidings"})
_CHECKED: Final = _KNOWN - {"tidings"} | {"type", "transport"}
_OWN: Final = frozenset({"era", "timeouts", "logLevel", "autoConnect", "roots"})
_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")
_ERA: Final = re.compile(r"auto|legacy|\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class EntryTimeouts:
    """Seconds for one server; None is the default of the client."""

    connect: float | None = None
    request: float | None = None
    total: float | None = None

    def raw(self) -> dict[str, float]:
        """Those that are set."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


def where_of(name: str, source: str) -> str:
    """How the message of an error about an entry begins."""
    return f"The server {name!r} in {source}" if source else f"The server {name!r}"


def shape(raw: Any) -> Any:
    """The entry with a word for each `${…}`: what they stand for is of no concern here."""
    if not isinstance(raw, dict):
        return raw
    return {key: _bare(value) if key in _CHECKED else None for key, value in cast("dict[str, Any]", raw).items()}


def _bare(value: Any) -> Any:
    match value:
        case str():
            return _PLACEHOLDER.sub("x", value)
        case list():
            return [_PLACEHOLDER.sub("x", each) if isinstance(each, str) else each for each in cast("list[Any]", value)]
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return {key: _PLACEHOLDER.sub("x", each) if isinstance(each, str) else each for key, each in pairs}
        case _:
            return value


def others_of(facts: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """What an entry says that Tidings has no use for."""
    others = {key: value for key, value in facts.items() if key not in _KNOWN}
    if kind is not None and others.get("type") == kind:
        del others["type"]
    own = facts.get("tidings")
    unknown = {key: value for key, value in cast("dict[str, Any]", own or {}).items() if key not in _OWN}
    return others | ({"tidings": unknown} if unknown else {})


def own_of(where: str, own: Any) -> dict[str, Any]:
    """The arguments of a `ServerEntry` that its `tidings` stands for.

    Raises:
        BadTarget: One of them is not what it should be.
    """

    def need(fits: object, key: str, wanted: str) -> None:
        if not fits:
            raise BadTarget(f"{where}: tidings{key} must be {wanted}.")

    if own is None:
        return {}
    need(isinstance(own, dict), "", "an object")
    facts = cast("dict[str, Any]", own)
    era, level, connects = facts.get("era", "auto"), facts.get("logLevel"), facts.get("autoConnect", False)
    need(isinstance(era, str) and _ERA.fullmatch(era), ".era", "auto, legacy or a version such as 2026-07-28")
    need(level is None or level in LOG_LEVELS, ".logLevel", f"one of {', '.join(LOG_LEVELS)}")
    need(isinstance(connects, bool), ".autoConnect", "true or false")
    roots: Any = facts.get("roots", [])
    need(
        isinstance(roots, list) and all(isinstance(each, str) for each in cast("list[Any]", roots)),
        ".roots",
        "a list of texts",
    )
    timeouts: Any = facts.get("timeouts", {})
    need(isinstance(timeouts, dict), ".timeouts", "an object")
    known = {each.name for each in fields(EntryTimeouts)}
    for key, seconds in cast("dict[str, Any]", timeouts).items():
        need(key in known, f".timeouts.{key}", f"one of {', '.join(sorted(known))}")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        need(is_number and 0 < seconds < 1e9, f".timeouts.{key}", "a number of seconds above 0")
    return {
        "era": era,
        "log_level": level,
        "auto_connect": connects,
        "roots": tuple(cast("list[str]", roots)),
        "timeouts": EntryTimeouts(**cast("dict[str, float]", timeouts)),
    }

"""The settings of a bridge: the servers behind it, and what of them is offered, polled and watched."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from tidings._version import __version__

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class PollRule:
    """The seconds between two reads of the resources whose URI fits `pattern`."""

    pattern: str
    seconds: float


@dataclass(frozen=True)
class CallWatch:
    """A read-only tool whose answer is a live resource: see `tidings.bridge.calls`."""

    server: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 30.0


@dataclass(frozen=True)
class UpstreamSpec:
    """One server behind the bridge."""

    name: str
    target: Any
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    polls: Sequence[PollRule] = ()
    timeout: float = 120.0
    version: str = __version__

    def offers(self, name: str) -> bool:
        """Returns whether a tool or prompt is offered: it is allowed, and not denied."""
        allowed = not self.allow or any(fnmatchcase(name, pattern) for pattern in self.allow)
        return allowed and not any(fnmatchcase(name, pattern) for pattern in self.deny)

    def interval(self, uri: str, default: float) -> float:
        """Returns the seconds between two reads of a resource that the server does not announce changes of."""
        return next((rule.seconds for rule in self.polls if fnmatchcase(uri, rule.pattern)), default)


def seconds(text: str) -> float:
    """Reads a duration such as `30s`, `5m` or `500ms`. Raises `ValueError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is not a duration. Write it as 30s, 5m or 1h.")
    return float(found[1]) * _SECONDS[found[2] or "s"]

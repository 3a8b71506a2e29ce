"""One setting: what it takes, how it is read from a text, and how it is shown.

May import: nothing but the standard library.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

MIB: Final = 1024 * 1024

Kind = Literal["size", "seconds", "count", "flag", "choice", "text", "networks", "domains", "file"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PREFIX: Final = "TIDINGS_WEB_"
"""What the names of all variables begin with."""

_SIZES: Final = {"": 1, "k": 1024, "m": MIB, "g": 1024 * MIB}
_SPANS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))


class BadSetting(ValueError):
    """A value is not what a setting takes. Says what it takes."""


@dataclass(frozen=True)
class Setting:
    """One setting: what it is called everywhere, what it takes, and what it is for."""

    name: str
    kind: Kind
    default: Any
    help: str
    least: float = 0
    most: float = float("inf")
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The option of the command: what may be repeated is named in the singular, what is on has one for off."""
        plain = self.name.replace("_", "-")
        return f"--{plain}/--no-{plain}" if self.kind == "flag" and self.default else f"--{plain}"

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return f"{PREFIX}{self.name.upper()}"

    @property
    def many(self) -> bool:
        """Whether it may be given several times."""
        return self.kind in ("networks", "domains")

    @property
    def metavar(self) -> str:
        """What stands for the value in the help."""
        if self.kind == "choice":
            return "|".join(self.choices)
        return {
            "size": "SIZE",
            "seconds": "SECONDS",
            "count": "NUMBER",
            "flag": "",
            "text": "TEXT",
            "networks": "CIDR",
            "domains": "DOMAIN",
            "file": "FILE",
        }[self.kind]

    @property
    def shown(self) -> str:
        """The default, as people write it."""
        if self.default in ((), None):
            return "none"
        if self.kind == "flag":
            return "yes" if self.default else "no"
        if self.kind == "size":
            gib = self.default % (1024 * MIB) == 0
            return f"{self.default // (1024 * MIB)} GiB" if gib else f"{self.default // MIB} MiB"
        if self.kind == "seconds":
            unit, each = next(((unit, each) for unit, each in _UNITS if self.default % each == 0), ("s", 1))
            return f"{self.default / each:g} {unit}"
        return f"{self.default:,}" if self.kind == "count" else str(self.default)

    def parse(self, text: str) -> Any:
        """One value, from a text.

        Raises:
            BadSetting: It is none.
        """
        return _PARSERS[self.kind](self, text.strip())

    def written(self, value: Any) -> list[str]:
        """The words of a command line that give it this value, wherever the command is started."""
        if self.kind == "flag":
            return [self.option.partition("/")[0] if value else self.option.partition("/")[2]]
        if self.kind == "file":
            value = value.absolute()
        each = value if self.many else [f"{value:g}" if self.kind == "seconds" else value]
        return [word for one in each for word in (self.option, str(one))]

    def check(self, value: Any) -> None:
        """Refuse a number that is too small or too great, or that is none.

        Raises:
            BadSetting: It is.
        """
        if self.kind not in ("size", "seconds", "count"):
            return
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadSetting(f"{value!r} is no number.")
        if not self.least <= value <= self.most:
            bounds = f"{self.least:,g} or more" if self.most == float("inf") else f"{self.least:,g} to {self.most:,g}"
            raise BadSetting(f"{value:,g} is out of bounds: give {bounds}.")


def _number(setting: Setting, text: str, units: Mapping[str, int], what: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.lower())
    unit = (found[2].removesuffix("ib").removesuffix("b") if units is _SIZES else found[2]) if found else "?"
    if found is None or unit not in units:
        raise BadSetting(f"{text!r} is no {what}.")
    value = float(found[1]) * units[unit]
    setting.check(value)
    return value


def _size(setting: Setting, text: str) -> int:
    return int(_number(setting, text, _SIZES, "size: give bytes, or 500k, 10M, 1G"))


def _seconds(setting: Setting, text: str) -> float:
    return _number(setting, text, _SPANS, "time: give seconds, or 90s, 5m, 2h, 1d")


def _count(setting: Setting, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text.replace("_", "")):
        raise BadSetting(f"{text!r} is no whole number.")
    setting.check(int(text))
    return int(text)


def _flag(_: Setting, text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off", ""):
        return False
    raise BadSetting(f"{text!r} is neither yes nor no.")


def _choice(setting: Setting, text: str) -> str:
    if text.lower() not in setting.choices:
        raise BadSetting(f"{text!r} is none of the choices: {', '.join(setting.choices)}.")
    return text.lower()


def _text(_: Setting, text: str) -> str:
    if not text or not text.isprintable():
        raise BadSetting("give a text of one line.")
    return text


def _network(_: Setting, text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        cure = "give an address or a network, as in 10.0.0.0/8 or ::1"
        raise BadSetting(f"{text!r} is no network ({error}): {cure}.") from None


def _domain(_: Setting, text: str) -> str:
    plain = text.lower().removeprefix("*.").strip(".")
    if not re.fullmatch(r"[^\s/:@?#*]{1,253}", plain):
        raise BadSetting(f"{text!r} is no domain: give its name alone, as in example.org.")
    return plain


def _file(_: Setting, text: str) -> Path:
    if not text:
        raise BadSetting("give the path of a file.")
    return Path(text)


_PARSERS: Final = cast(
    "dict[Kind, Callable[[Setting, str], Any]]",
    {
        "size": _size,
        "seconds": _seconds,
        "count": _count,
        "flag": _flag,
        "choice": _choice,
        "text": _text,
        "networks": _network,
        "domains": _domain,
        "file": _file,
    },
)

"""Settings in one table: a dataclass gives the options of a command, the variables of the environment and the docs.

    @dataclass(frozen=True)
    class Settings:
        timeout: float = setting(30.0, "seconds", "for one request", least=0.1, most=600)

        def __post_init__(self) -> None:
            settle(self, TABLE)

    TABLE = settings_of(Settings, prefix="TIDINGS_WEB_")

Nothing here reads the environment: the command does.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

MIB: Final = 1024 * 1024

Kind = Literal["size", "seconds", "count", "flag", "choice", "text", "networks", "domains", "file"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METAVARS: Final = {"count": "NUMBER", "flag": "", "networks": "CIDR", "domains": "DOMAIN"}
_BYTES: Final = {"": 1, "k": 1024, "m": MIB, "g": 1024 * MIB}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class BadSetting(ValueError):
    """A setting does not take a value. The message says what it takes."""


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
    prefix: str = ""  # The beginning of the variable's name

    @property
    def option(self) -> str:
        """The option of the command: `--max-bytes`; `--pdf/--no-pdf` for a flag that is on by default."""
        plain = self.name.replace("_", "-")
        return f"--{plain}/--no-{plain}" if self.kind == "flag" and self.default else f"--{plain}"

    @property
    def variable(self) -> str:
        """The variable of the environment: `TIDINGS_WEB_MAX_BYTES`."""
        return f"{self.prefix}{self.name.upper()}"

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
        if self.default in ((), None):
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
                self.check(int(text))
                return int(text)
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
                    raise BadSetting("Give a text of one line.")
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
        value = float(found[1]) * units[unit]
        self.check(value)
        return value

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
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raises `BadSetting` if a number is too small or too large, or is not a number."""
        if self.kind not in ("size", "seconds", "count"):
            return
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BadSetting(f"{value!r} is not a number.")
        if not self.least <= value <= self.most:
            bounds = f"{self.least:,g} or more" if self.most == float("inf") else f"{self.least:,g} to {self.most:,g}"
            raise BadSetting(f"{value:,g} is out of range. Give {bounds}.")

    def written(self, value: Any) -> list[str]:
        """Returns the words of a command line that give this value, wherever the command is started."""
        if self.kind == "flag":
            return [self.option.partition("/")[0] if value else self.option.partition("/")[2]]
        if self.kind == "file":
            value = value.absolute()
        each = value if self.many else [f"{value:g}" if self.kind == "seconds" else value]
        return [word for one in each for word in (self.option, str(one))]


def setting(default: Any, kind: Kind, help_: str, **bounds: Any) -> Any:
    """Declares a field of a dataclass as a setting. `bounds` are `least`, `most` and `choices` of `Setting`."""
    return field(default=default, metadata={"kind": kind, "help": help_, **bounds})


def settings_of(cls: type[Any], *, prefix: str) -> tuple[Setting, ...]:
    """Returns the settings that a dataclass declares, in their order."""
    return tuple(Setting(name=each.name, default=each.default, prefix=prefix, **each.metadata) for each in fields(cls))


def settle(instance: object, table: Iterable[Setting]) -> None:
    """Checks and parses the fields of a frozen dataclass, in its `__post_init__`. `BadSetting` begins with the name."""
    for each in table:
        try:
            object.__setattr__(instance, each.name, each.settled(getattr(instance, each.name)))
        except BadSetting as error:
            raise BadSetting(f"{each.name}: {error}") from None

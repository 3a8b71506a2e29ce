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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, cast

MIB: Final = 1024 * 1024

Kind = Literal["size", "seconds", "count", "flag", "choice", "text", "networks", "domains", "file"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METAVARS: Final[Mapping[Kind, str]] = {
    "size": "SIZE",
    "seconds": "SECONDS",
    "count": "NUMBER",
    "flag": "",
    "text": "TEXT",
    "networks": "CIDR",
    "domains": "DOMAIN",
    "file": "FILE",
}
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
    help: str
    """One phrase without a capital and a full stop."""
    least: float = 0
    """The smallest number, of a size, a time or a count."""
    most: float = float("inf")
    choices: tuple[str, ...] = ()
    prefix: str = ""
    """The beginning of the variable's name."""

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
        """Whether it may be given several times; its value is then a tuple."""
        return self.kind in ("networks", "domains")

    @property
    def metavar(self) -> str:
        """The placeholder for the value in the help."""
        return "|".join(self.choices) if self.kind == "choice" else _METAVARS[self.kind]

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

    def parse(self, text: str) -> Any:
        """Returns one value, from a text. Of a setting that may be given several times, one of its values.

        Raises:
            BadSetting: The setting does not take it.
        """
        return _PARSERS[self.kind](self, text.strip())

    def parse_all(self, text: str) -> Any:
        """Returns the whole value, from a text as a variable has it: several values are separated by commas or spaces.

        Raises:
            BadSetting: The setting does not take one of them.
        """
        return tuple(map(self.parse, re.findall(r"[^,\s]+", text))) if self.many else self.parse(text)

    def settled(self, value: Any) -> Any:
        """Returns a value that a program gave, checked; texts are parsed, and one of several becomes a tuple.

        Raises:
            BadSetting: The setting does not take it.
        """
        if isinstance(value, str):
            value = self.parse_all(value)
        elif self.many:
            several = cast("tuple[Any, ...]", value if isinstance(value, tuple | list | set | frozenset) else (value,))
            value = tuple(self.parse(each) if isinstance(each, str) else each for each in several)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Checks the range of a number.

        Raises:
            BadSetting: It is too small or too large, or is not a number.
        """
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
    """Checks the fields of a frozen dataclass, and parses those that are texts. For its `__post_init__`.

    Raises:
        BadSetting: A setting does not take its value. The message begins with its name.
    """
    for each in table:
        try:
            object.__setattr__(instance, each.name, each.settled(getattr(instance, each.name)))
        except BadSetting as error:
            raise BadSetting(f"{each.name}: {error}") from None


def parse_texts(given: Mapping[str, str], table: Iterable[Setting]) -> dict[str, Any]:
    """Returns values from texts, both by the names of their settings.

    Raises:
        BadSetting: A setting does not take its text.
        KeyError: There is no such setting.
    """
    known = {each.name: each for each in table}
    return {name: known[name].parse_all(text) for name, text in given.items()}


def documented(table: Iterable[Setting]) -> str:
    """Returns the table of settings for the documentation, in Markdown."""
    rows = [f"| `{each.option}` | `{each.variable}` | {each.shown} | {each.help} |" for each in table]
    return "\n".join(["| option | variable | default | is |", "|---|---|---|---|", *rows])


def _number(setting: Setting, text: str, units: Mapping[str, int], what: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.lower())
    unit = (found[2].removesuffix("ib").removesuffix("b") if units is _BYTES else found[2]) if found else "?"
    if found is None or unit not in units:
        raise BadSetting(f"{text!r} is not a {what}.")
    value = float(found[1]) * units[unit]
    setting.check(value)
    return value


def _size(setting: Setting, text: str) -> int:
    return int(_number(setting, text, _BYTES, "size. Give bytes, or 500k, 10M, 1G"))


def _seconds(setting: Setting, text: str) -> float:
    return _number(setting, text, _SECONDS, "time. Give seconds, or 90s, 5m, 2h, 1d")


def _count(setting: Setting, text: str) -> int:
    if not re.fullmatch(r"[0-9](?:_?[0-9]){0,11}", text):
        raise BadSetting(f"{text!r} is not a whole number.")
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
        raise BadSetting(f"{text!r} is not one of the choices: {', '.join(setting.choices)}.")
    return text.lower()


def _text(_: Setting, text: str) -> str:
    if not text or not text.isprintable():
        raise BadSetting("Give a text of one line.")
    return text


def _network(_: Setting, text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        cure = "Give an address or a network, such as 10.0.0.0/8 or ::1"
        raise BadSetting(f"{text!r} is not a network ({error}). {cure}.") from None


def _domain(_: Setting, text: str) -> str:
    plain = text.lower().removeprefix("*.").strip(".")
    if not re.fullmatch(r"[^\s/:@?#*]{1,253}", plain):
        raise BadSetting(f"{text!r} is not a valid domain name. Use a host such as example.org.")
    return plain


def _file(_: Setting, text: str) -> Path:
    if not text:
        raise BadSetting("Give the path of a file.")
    return Path(text)


_PARSERS: Final[Mapping[Kind, Callable[[Setting, str], Any]]] = {
    "size": _size,
    "seconds": _seconds,
    "count": _count,
    "flag": _flag,
    "choice": _choice,
    "text": _text,
    "networks": _network,
    "domains": _domain,
    "file": _file,
}

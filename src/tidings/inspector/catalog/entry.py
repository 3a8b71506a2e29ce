"""One server of the catalog: what to connect to and how, as a value that never shows its secrets.

In a file it is an entry of `mcpServers`, as other programs write it; what only Tidings knows is under `tidings`:

    {"command": "uvx", "args": ["weather"], "env": {"API_KEY": "${WEATHER_KEY}"},
     "tidings": {"era": "legacy", "timeouts": {"request": 10}, "logLevel": "debug", "autoConnect": true,
                 "roots": ["/srv"]}}

`${NAME}` stays as it is until somebody connects. Keys that are not known here are kept.

An entry as a file has it, taken apart: its shape, what Tidings alone knows of, and what it does not know.

What of an entry is secret: how it is shown, how it is put back, and by which variables an export replaces it.

A text that is nothing but `${NAME}` names a secret without telling it, and is shown.

An entry that was edited as it was shown: what is masked in it is as it was.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from tidings.client.masking import MASK, looks_secret, shown_arguments, shown_url
from tidings.client.servers_file import ServersFileEntry, parse_entry
from tidings.errors import BadTarget
from tidings.inspector.catalog.file import CatalogError

if TYPE_CHECKING:
    from tidings.client.config import ClientConfig


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


_NAMED_ONLY: Final = re.compile(r"(?:(?:bearer|basic|token)\s+)?(?:\$\{(?:env:|input:)?[\w.-]+\})+", re.IGNORECASE)
_PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
_NOT_LETTERS: Final = re.compile(r"[^A-Za-z0-9]+")


def is_named(text: str) -> bool:
    """Whether a text is nothing but the names of variables."""
    return _NAMED_ONLY.fullmatch(text.strip()) is not None


def variable_is_secret(name: str, value: str) -> bool:
    """Whether the value of an environment variable should not be seen."""
    if not value or is_named(value):
        return False
    return looks_secret(name) or bool(shown_arguments([value])[1])


def header_is_secret(name: str, value: str) -> bool:
    """Whether the value of a header should not be seen: any may tell the server who asks."""
    return bool(value) and not is_named(value) and name.lower() not in _PLAIN_HEADERS


def shown_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be shown."""
    return {name: MASK if variable_is_secret(name, value) else value for name, value in env.items()}


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be shown."""
    return {name: MASK if header_is_secret(name, value) else value for name, value in headers.items()}


def variable_name(*parts: str) -> str:
    """The name of a variable, made of several words."""
    name = "_".join(_NOT_LETTERS.sub("_", part).strip("_").upper() for part in parts if part)
    return f"_{name}" if name[:1].isdigit() else name or "SECRET"


def put_back(edited: Mapping[str, str], original: Mapping[str, str]) -> dict[str, str]:
    """What was edited as it was shown, with the secrets that were left as they are."""
    return {name: original[name] if value == MASK and name in original else value for name, value in edited.items()}


@dataclass(frozen=True, repr=False)
class ServerEntry:
    """A server in the catalog. Either `command` or `url` is there."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    kind: Literal["http", "sse"] | None = None
    """The transport of a server at a URL, where that is known."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    era: str = "auto"
    """`auto`, `legacy` or a modern version of the protocol."""
    timeouts: EntryTimeouts = field(default_factory=EntryTimeouts)
    log_level: str | None = None
    auto_connect: bool = False
    roots: tuple[str, ...] = ()
    source: str = field(default="", compare=False)
    """Where it was found: the path of a file, or empty."""
    read_only: bool = field(default=False, compare=False)
    literal: bool = field(default=False, compare=False)
    """Whether `${NAME}` in it stands for itself: it was typed, not written into a file."""
    others: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keys of its file that Tidings has no use for."""

    @property
    def is_command(self) -> bool:
        """Whether it is a program to start."""
        return self.command is not None

    @classmethod
    def from_raw(cls, name: str, raw: object, *, source: str = "", read_only: bool = False) -> "ServerEntry":
        """The entry that a file has under `name`.

        Raises:
            BadTarget: It is none. The message says what is wrong where.
        """
        where = where_of(name, source)
        if not name.strip() or not name.isprintable():
            raise BadTarget(f"{where} needs a name that can be read.")
        checked = parse_entry(where, name, shape(raw), {})
        facts = cast("dict[str, Any]", raw)
        own = own_of(where, facts.get("tidings"))
        return cls(
            name,
            command=facts.get("command"),
            args=tuple(cast("list[str]", facts.get("args") or [])),
            url=facts.get("url"),
            kind=checked.kind,
            env=dict(cast("dict[str, str]", facts.get("env") or {})),
            cwd=facts.get("cwd"),
            headers=dict(cast("dict[str, str]", facts.get("headers") or {})),
            source=source,
            read_only=read_only,
            others=others_of(facts, checked.kind),
            **own,
        )

    def raw(self) -> dict[str, Any]:
        """The entry as a file has it, with its secrets."""
        made: dict[str, Any] = {}
        if self.command is not None:
            made = {"command": self.command, "args": list(self.args)}
        elif self.url is not None:
            made = ({"type": self._type()} if self.kind else {}) | {"url": self.url}
        for key, value in (("env", dict(self.env)), ("cwd", self.cwd), ("headers", dict(self.headers))):
            if value:
                made[key] = value
        others = {key: value for key, value in self.others.items() if key not in ("tidings", *made)}
        if self.kind is None and self.command is None:
            others.pop("type", None)
        unknown: Any = self.others.get("tidings")
        own = {**(cast("dict[str, Any]", unknown) if isinstance(unknown, dict) else {}), **self._own()}
        return {**made, **others, **({"tidings": own} if own else {})}

    def _type(self) -> str | None:
        """The transport, in the words of the file that it came from."""
        stated = str(self.others.get("type", ""))
        return stated if re.sub(r"[-_ ]|streamable", "", stated.lower()) == self.kind else self.kind

    def _own(self) -> dict[str, Any]:
        own: dict[str, Any] = {
            "era": self.era if self.era != "auto" else None,
            "timeouts": self.timeouts.raw() or None,
            "logLevel": self.log_level,
            "autoConnect": self.auto_connect or None,
            "roots": list(self.roots) or None,
        }
        return {key: value for key, value in own.items() if value is not None}

    def shown(self) -> dict[str, Any]:
        """The entry as it may be shown: as in its file, with `***` for each secret."""
        made = self.raw()
        if self.args:
            made["args"] = shown_arguments(self.args)[0]
        if self.url is not None:
            made["url"] = shown_url(self.url)
        if self.env:
            made["env"] = shown_variables(self.env)
        if self.headers:
            made["headers"] = shown_headers(self.headers)
        for key in self.others:
            if key not in ("type", "transport", "disabled", "tidings") and key in made:
                made[key] = "***"  # Nobody knows what it is.
        return made

    def __repr__(self) -> str:
        return f"ServerEntry({self.name!r}, {self.shown()!r})"

    def resolved(self, environ: Mapping[str, str]) -> ServersFileEntry:
        """The entry with its variables filled in.

        Raises:
            BadTarget: One of them is not set.
        """
        if self.literal:
            return ServersFileEntry(
                self.name,
                command=self.command,
                args=self.args,
                env=self.env,
                cwd=self.cwd,
                url=self.url,
                headers=self.headers,
                kind=self.kind,
            )
        return parse_entry(where_of(self.name, self.source), self.name, self.raw(), environ)

    def connect_arguments(
        self, environ: Mapping[str, str] | None = None, config: "ClientConfig | None" = None
    ) -> dict[str, Any]:
        """What to give to `tidings.connect(**…)`.

        Args:
            environ: Where `${NAME}` is looked up: pass `os.environ`.
            config: The settings to start from; the entry's own timeouts go before its.

        Raises:
            BadTarget: A variable is not set, or the entry cannot be connected to.
        """
        from tidings.client.config import ClientConfig  # noqa: PLC0415 - only those who connect need it
        from tidings.client.targets import target_of  # noqa: PLC0415 - imports the SDK

        base = config or ClientConfig()
        made: dict[str, Any] = {
            "target": target_of(self.resolved(environ or {})),
            "era": self.era,
            "config": replace(base, timeouts=replace(base.timeouts, **self.timeouts.raw())),
        }
        if self.log_level is not None:
            made["log_level"] = self.log_level
        if self.roots:
            made["roots"] = list(self.roots)
        return made


def keep_secrets(edited: ServerEntry, original: ServerEntry) -> ServerEntry:
    """`edited`, which was made from `original.shown()`, with the secrets of `original` where they were left alone.

    Raises:
        CatalogError: It leads to another program or another host than before, and something in it is still masked.
            Whoever may change where an entry leads must not thereby learn what it holds.
    """
    if _goes_to(edited) != _goes_to(original):
        if any(
            MASK in text for text in (*edited.args, *edited.env.values(), *edited.headers.values(), edited.url or "")
        ):
            raise CatalogError("This is another server now: give what is masked (***) again, or take it out.")
        return edited
    shown = shown_arguments(original.args)[0]
    known = {text: secret for text, secret in zip(shown, original.args, strict=True) if text not in (secret, MASK)}
    args = [
        original.args[spot] if spot < len(shown) and text == shown[spot] else known.get(text, text)
        for spot, text in enumerate(edited.args)
    ]
    unchanged = original.url is not None and edited.url == shown_url(original.url)
    others = {key: original.others.get(key, value) if value == MASK else value for key, value in edited.others.items()}
    return replace(
        edited,
        args=tuple(args),
        url=original.url if unchanged else edited.url,
        env=put_back(edited.env, original.env),
        headers=put_back(edited.headers, original.headers),
        others=others,
    )


def _goes_to(entry: ServerEntry) -> tuple[str | None, ...]:
    if entry.url is None:
        return (entry.command,)
    try:
        parts = urlsplit(entry.url)
    except ValueError:
        return (entry.url,)
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower()

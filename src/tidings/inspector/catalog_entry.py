"""One server of the catalog: what to connect to and how, as a value that never shows its secrets.

In a file it is an entry of `mcpServers`, as other programs write it; what only Tidings knows is under `tidings`:

    {"command": "uvx", "args": ["weather"], "env": {"API_KEY": "${WEATHER_KEY}"},
     "tidings": {"era": "legacy", "timeouts": {"request": 10}, "logLevel": "debug", "autoConnect": true,
                 "roots": ["/srv"]}}

`${NAME}` stays as it is until somebody connects. Keys that are not known here are kept.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from tidings.client.masking import shown_arguments, shown_url
from tidings.client.servers_file import Entry, parse_entry
from tidings.errors import BadTarget
from tidings.inspector.catalog_raw import EntryTimeouts, others_of, own_of, shape, where_of
from tidings.inspector.catalog_secrets import shown_headers, shown_variables

if TYPE_CHECKING:
    from tidings.client.config import ClientConfig


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

    def resolved(self, environ: Mapping[str, str]) -> Entry:
        """The entry with its variables filled in.

        Raises:
            BadTarget: One of them is not set.
        """
        if self.literal:
            return Entry(
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

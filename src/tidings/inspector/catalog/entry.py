"""`ServerEntry`: one server of the catalog, as a value that never shows its secrets.

In a file it is an entry of `mcpServers`, as other programs write it. Tidings' own settings are under `tidings`:

    {"command": "uvx", "args": ["weather"], "env": {"API_KEY": "${WEATHER_KEY}"},
     "tidings": {"era": "legacy", "timeouts": {"request": 10}, "logLevel": "debug", "autoConnect": true,
                 "roots": ["/srv"]}}

`${NAME}` is filled in when somebody connects. A value that is nothing but `${NAME}` is not secret, and is shown.
Unknown keys are kept. `keep_secrets` restores the secrets of an entry that was edited as it was shown.

Several programs read and write the file. A writer holds a lock, reads the file again, changes only what it has to, and
replaces the file in one step. A program that does not use the lock is noticed: if it has changed the file meanwhile,
the change is made again. The file is readable for its owner alone, because it may hold tokens.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

from tidings._kit import files
from tidings._kit.bounded_json import NotJson, as_dict, as_texts, is_number, parse_with_comments
from tidings.client.masking import MASK, looks_secret, shown_arguments, shown_url
from tidings.client.servers_file import ServersFileEntry, parse_entry
from tidings.errors import BadTarget

LARGEST: Final = 8 * 2**20
_TRIES: Final = 10
_LOCK_SECONDS: Final = 10.0

T = TypeVar("T")


class CatalogError(ValueError):
    """A catalog cannot be read or changed. The message names the file, the reason and the remedy."""


def read(path: Path) -> tuple[dict[str, Any], os.stat_result | None, bool]:
    """Returns the object in the file, the file's state if it exists, and whether it is plain JSON without comments.

    Raises `CatalogError` if it cannot be read.
    """
    try:
        data, state = files.read_file(path, LARGEST)
        text = data.decode("utf-8-sig")
        parsed: tuple[Any, bool] = parse_with_comments(text) if text.strip() else ({}, True)
    except FileNotFoundError:
        return {}, None, True
    except (IsADirectoryError, files.NotAFile) as error:
        kind = "a folder" if isinstance(error, IsADirectoryError) else "not a file"
        raise CatalogError(f"{path} is {kind}. Give the path of a JSON file.") from None
    except OverflowError:
        raise CatalogError(f"{path} has more than {LARGEST // 2**20} MB: this is not a list of servers.") from None
    except OSError as error:
        raise CatalogError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CatalogError(f"{path} is not text in UTF-8.") from None
    except NotJson as error:
        raise CatalogError(f"{path} is not JSON: {error}.") from None
    document, is_plain = parsed
    if not isinstance(document, dict):
        raise CatalogError(f'{path} must contain an object, as in {{"mcpServers": {{}}}}.')
    return cast("dict[str, Any]", document), state, is_plain


def change(path: Path, edit: Callable[[dict[str, Any]], T]) -> T:
    """Lets `edit` change the object in the file, writes it, and returns the result. Raises `CatalogError`."""
    try:
        target = Path(os.path.realpath(path))  # A link stays a link.
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.locked(target.with_name(f".{target.name}.lock"), _LOCK_SECONDS):
            for _ in range(_TRIES):
                document, state, is_plain = read(target)
                if not is_plain:
                    lost = "has comments or trailing commas, which would be lost"
                    raise CatalogError(f"{path} {lost}. Remove them, or edit it by hand.")
                result = edit(document)
                if files.replace_file(target, _encoded(document), state):
                    return result
    except files.Locked:
        message = f"Another program has been writing {path} for {_LOCK_SECONDS:g} s. Try again later."
        raise CatalogError(message) from None
    except OSError as error:
        raise CatalogError(f"{path} cannot be written: {error.strerror or error}.") from None
    except RecursionError:
        raise CatalogError(f"{path} is nested too deeply to be written.") from None
    raise CatalogError(f"Another program keeps changing {path}. Try again when it has finished.")


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # A lone surrogate: JSON can express it, UTF-8 cannot.
        return json.dumps(document, indent=2).encode() + b"\n"


def section_of(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Returns the servers in a document by name. Raises `CatalogError` if they are not an object."""
    for name in ("mcpServers", "servers"):
        if name in document:
            if not isinstance(document[name], dict):
                raise CatalogError(f"{name} in {path} must be an object of servers by name.")
            return cast("dict[str, Any]", document[name])
    return {}


def user_catalog(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Returns the path of a user's catalog."""
    return files.settings_folder(environ, platform, home) / "tidings" / "servers.json"


LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_KNOWN: Final = frozenset({"command", "args", "env", "cwd", "url", "headers", "tidings"})
_CHECKED: Final = _KNOWN - {"tidings"} | {"type", "transport"}
_OWN: Final = frozenset({"era", "timeouts", "logLevel", "autoConnect", "roots"})
_TIMEOUTS: Final = ("connect", "request", "total")
_ERA: Final = re.compile(r"auto|legacy|\d{4}-\d\d-\d\d")
_PLACEHOLDER: Final = re.compile(r"\$\{[^}]*\}")
_PLACEHOLDERS_ONLY: Final = re.compile(r"(?i)(?:(?:bearer|basic|token)\s+)?(?:\$\{(?:env:|input:)?[\w.-]+\})+")
_PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
_NOT_LETTERS: Final = re.compile(r"[^A-Za-z0-9]+")


def map_texts(value: Any, change: Callable[[str], str], depth: int) -> Any:
    """Returns a JSON value with every text in it changed, in lists and objects down to this depth."""
    match value:
        case str():
            return change(value)
        case list() if depth:
            return [map_texts(each, change, depth - 1) for each in cast("list[Any]", value)]
        case dict() if depth:
            return {key: map_texts(each, change, depth - 1) for key, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _own_settings(where: str, own: Any) -> dict[str, Any]:
    """Returns the arguments of a `ServerEntry` that are under `tidings`. Raises `BadTarget`."""

    def need(fits: object, key: str, wanted: str) -> None:
        if not fits:
            raise BadTarget(f"{where}: tidings{key} must be {wanted}.")

    if own is None:
        return {}
    need(isinstance(own, dict), "", "an object")
    facts = as_dict(own)
    era, level, connects = facts.get("era", "auto"), facts.get("logLevel"), facts.get("autoConnect", False)
    need(isinstance(era, str) and _ERA.fullmatch(era), ".era", "auto, legacy or a version such as 2026-07-28")
    need(level is None or level in LOG_LEVELS, ".logLevel", f"one of {', '.join(LOG_LEVELS)}")
    need(isinstance(connects, bool), ".autoConnect", "true or false")
    roots: Any = facts.get("roots", [])
    need(as_texts(roots) == roots, ".roots", "a list of strings")
    timeouts = facts.get("timeouts", {})
    need(isinstance(timeouts, dict), ".timeouts", "an object")
    for key, seconds in as_dict(timeouts).items():
        need(key in _TIMEOUTS, f".timeouts.{key}", f"one of {', '.join(_TIMEOUTS)}")
        need(is_number(seconds) and 0 < seconds < 1e9, f".timeouts.{key}", "a number of seconds above 0")
    own_lists = {"roots": tuple(as_texts(roots)), "timeouts": as_dict(timeouts)}
    return {"era": era, "log_level": level, "auto_connect": connects, **own_lists}


def variable_is_secret(name: str, value: str) -> bool:
    """Returns whether the value of an environment variable must not be shown."""
    if not value or _PLACEHOLDERS_ONLY.fullmatch(value.strip()):
        return False
    return looks_secret(name) or bool(shown_arguments([value])[1])


def header_is_secret(name: str, value: str) -> bool:
    """Returns whether the value of a header must not be shown. Any header may authenticate the sender."""
    return bool(value) and not _PLACEHOLDERS_ONLY.fullmatch(value.strip()) and name.lower() not in _PLAIN_HEADERS


def variable_name(*parts: str) -> str:
    """Returns the name of a variable that is made of several words."""
    name = "_".join(_NOT_LETTERS.sub("_", part).strip("_").upper() for part in parts if part)
    return f"_{name}" if name[:1].isdigit() else name or "SECRET"


@dataclass(frozen=True, repr=False)
class ServerEntry:
    """A server in the catalog. It has either a `command` or a `url`."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    kind: Literal["http", "sse"] | None = None  # The transport of a server at a URL, if it is known.
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    era: str = "auto"  # Or `legacy`, or a modern version of the protocol.
    timeouts: Mapping[str, float] = field(default_factory=dict[str, float])  # In seconds, by a name of `_TIMEOUTS`.
    log_level: str | None = None
    auto_connect: bool = False
    roots: tuple[str, ...] = ()
    source: str = field(default="", compare=False)  # The path of its file, or empty.
    literal: bool = field(default=False, compare=False)  # It was typed: `${NAME}` is not a placeholder in it.
    others: Mapping[str, Any] = field(default_factory=dict[str, Any])  # Keys of its file that Tidings does not know.

    @property
    def is_command(self) -> bool:
        return self.command is not None

    @classmethod
    def from_raw(cls, name: str, raw: object, *, source: str = "") -> "ServerEntry":
        """Returns the entry that a file has under `name`. Raises `BadTarget` with the place of the mistake."""
        where = _where(name, source)
        if not name.strip() or not name.isprintable():
            raise BadTarget(f"{where} needs a name of printable characters.")
        facts = as_dict(raw)
        # A word stands for each `${…}`, so that an entry can be checked before it is filled in.
        shape = {
            key: map_texts(value, lambda text: _PLACEHOLDER.sub("x", text), 1) if key in _CHECKED else None
            for key, value in facts.items()
        }
        kind = parse_entry(where, name, shape if isinstance(raw, dict) else raw, {}).kind
        others = {key: value for key, value in facts.items() if key not in _KNOWN}
        if kind is not None and others.get("type") == kind:
            del others["type"]
        if unknown := {key: value for key, value in as_dict(facts.get("tidings")).items() if key not in _OWN}:
            others["tidings"] = unknown
        checked = {key: facts.get(key) for key in ("command", "url", "cwd")}
        checked |= {key: dict(as_dict(facts.get(key))) for key in ("env", "headers")}
        args, own = tuple(as_texts(facts.get("args"))), _own_settings(where, facts.get("tidings"))
        return cls(name, args=args, kind=kind, source=source, others=others, **checked, **own)

    @classmethod
    def read_all(cls, section: Mapping[str, Any], source: str) -> tuple[list["ServerEntry"], list[str]]:
        """Returns the servers in a section of a file in their order, and the reasons why others are not valid."""
        entries, problems = list[ServerEntry](), list[str]()
        for name, raw in section.items():
            try:
                entries.append(cls.from_raw(name, raw, source=source))
            except BadTarget as error:
                problems.append(error.message)
        return entries, problems

    def raw(self) -> dict[str, Any]:
        """Returns the entry as a file has it, with its secrets."""
        made: dict[str, Any] = {}
        if self.command is not None:
            made = {"command": self.command, "args": list(self.args)}
        elif self.url is not None:
            stated = str(self.others.get("type", ""))  # As its file spells the transport.
            alike = re.sub(r"[-_ ]|streamable", "", stated.lower()) == self.kind
            made = ({"type": stated if alike else self.kind} if self.kind else {}) | {"url": self.url}
        for key, value in (("env", dict(self.env)), ("cwd", self.cwd), ("headers", dict(self.headers))):
            if value:
                made[key] = value
        others = {key: value for key, value in self.others.items() if key not in ("tidings", *made)}
        if self.kind is None and self.command is None:
            others.pop("type", None)
        own = {
            "era": "" if self.era == "auto" else self.era,
            "timeouts": dict(self.timeouts),
            "logLevel": self.log_level,
        }
        own |= {"autoConnect": self.auto_connect, "roots": list(self.roots)}
        own = as_dict(self.others.get("tidings")) | {key: value for key, value in own.items() if value}
        return {**made, **others, **({"tidings": own} if own else {})}

    def shown(self) -> dict[str, Any]:
        """Returns the entry as it may be shown: as in its file, with `***` for each secret."""
        made = self.raw()
        if self.args:
            made["args"] = shown_arguments(self.args)[0]
        if self.url is not None:
            made["url"] = shown_url(self.url)
        if self.env:
            made["env"] = {name: MASK if variable_is_secret(name, value) else value for name, value in self.env.items()}
        if self.headers:
            pairs = self.headers.items()
            made["headers"] = {name: MASK if header_is_secret(name, value) else value for name, value in pairs}
        for key in self.others:
            if key not in ("type", "transport", "disabled", "tidings") and key in made:
                made[key] = MASK  # It may be a secret.
        return made

    def __repr__(self) -> str:
        return f"ServerEntry({self.name!r}, {self.shown()!r})"

    def resolved(self, environ: Mapping[str, str]) -> ServersFileEntry:
        """Returns the entry with its variables filled in. Raises `BadTarget` if one is not set."""
        if self.literal:
            facts = self.command, self.args, self.env, self.cwd, self.url, self.headers, self.kind
            return ServersFileEntry(self.name, *facts)
        return parse_entry(_where(self.name, self.source), self.name, self.raw(), environ)


def keep_secrets(edited: ServerEntry, original: ServerEntry) -> ServerEntry:
    """Returns `edited`, which was made from `original.shown()`, with the masked values of `original` restored.

    Changing the target of an entry must not reveal its secrets to the new target: raises `CatalogError` if it leads to
    another program or host than before, and something in it is still masked.
    """
    if _destination(edited) != _destination(original):
        texts = (*edited.args, *edited.env.values(), *edited.headers.values(), edited.url or "")
        if any(MASK in text for text in texts):
            raise CatalogError("This is another server now. Enter the masked values (***) again, or remove them.")
        return edited

    def restored(after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
        return {name: before.get(name, value) if value == MASK else value for name, value in after.items()}

    shown = shown_arguments(original.args)[0]
    known = {text: secret for text, secret in zip(shown, original.args, strict=True) if text not in (secret, MASK)}
    args = [
        original.args[spot] if spot < len(shown) and text == shown[spot] else known.get(text, text)
        for spot, text in enumerate(edited.args)
    ]
    unchanged = original.url is not None and edited.url == shown_url(original.url)
    return replace(
        edited,
        args=tuple(args),
        url=original.url if unchanged else edited.url,
        env=restored(edited.env, original.env),
        headers=restored(edited.headers, original.headers),
        others=restored(edited.others, original.others),
    )


def _destination(entry: ServerEntry) -> tuple[str | None, ...]:
    try:
        parts = urlsplit(entry.url or "")
    except ValueError:
        return (entry.url,)
    return entry.command, parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower()


def _where(name: str, source: str) -> str:
    return f"The server {name!r} in {source}" if source else f"The server {name!r}"

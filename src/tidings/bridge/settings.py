"""The settings of a bridge: the servers behind it, and what of them is offered, polled and watched.

A server of an `mcpServers` file may have a section `tidings` of its own:

    {"mcpServers": {"github": {"url": "https://…", "tidings": {
        "allow": ["list_*", "get_*"], "deny": ["delete_*"], "poll": {"repo://*": "30s"}, "timeout": "60s",
        "watch": ["list_runs repo=acme/app every=30s"], "ignore": {"repo://*": ["$.checked_at"]},
        "auth": {"issuer": "https://…", "client_id": "tidings", "client_secret": "${SECRET}"}, "pass_token": false}}}}
"""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    ValidationInfo,
)

from tidings._kit.bounded_json import as_dict
from tidings._kit.suggest import did_you_mean, there_are
from tidings.bridge.ignoring import Ignored
from tidings.bridge.names import owner_of_name, server_name
from tidings.client.servers_file import fill_texts, read_servers
from tidings.client.targets import HttpTarget, parse_entry_target, parse_target
from tidings.errors import BadTarget

if TYPE_CHECKING:
    import httpx2
    from pydantic_core import ErrorDetails

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AUTH_KEYS: Final = ("issuer", "client_id", "client_secret", "scope")
_Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class CallWatch:
    """A read-only tool whose answer is a live resource: see `tidings.bridge.call_resources`."""

    server: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 30.0
    ignore: Sequence[str] = ()
    """Rules for what does not count as a change: see `tidings.bridge.ignoring`."""


@dataclass(frozen=True)
class ClientCredentials:
    """The credentials with which the bridge signs in to a server at a URL, by OAuth, without a person."""

    issuer: _Text
    client_id: _Text
    client_secret: _Text = field(repr=False)
    scope: str | None = None
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class UpstreamSpec:
    """One server behind the bridge."""

    name: str
    target: Any  # As for `tidings.connect`.
    allow: Sequence[str] = ()
    deny: Sequence[str] = ()
    polls: Mapping[str, float] = field(default_factory=dict[str, float])
    timeout: float = 120.0
    era: str = "auto"
    watches: Sequence[CallWatch] = ()
    ignores: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    auth: "httpx2.Auth | ClientCredentials | None" = None
    pass_token: bool = False
    """Send the `Authorization` header of each client on, in a session of its own."""

    @property
    def has_credentials(self) -> bool:
        """It has its own, so that those of clients are not sent to it."""
        headers = getattr(self.target, "headers", {})
        return self.auth is not None or any(name.lower() == "authorization" for name in headers)

    def ignored(self, uri: str) -> list[str]:
        """Returns the rules for what does not count as a change of a resource."""
        return [rule for pattern, rules in self.ignores.items() if fnmatchcase(uri, pattern) for rule in rules]

    def offers(self, name: str) -> bool:
        """Returns whether a tool or prompt is offered: it is allowed, and not denied."""
        allowed = not self.allow or any(fnmatchcase(name, pattern) for pattern in self.allow)
        return allowed and not any(fnmatchcase(name, pattern) for pattern in self.deny)

    def interval(self, uri: str) -> float | None:
        """Returns the seconds between two reads of a resource, if the user has set them."""
        return next((pause for pattern, pause in self.polls.items() if fnmatchcase(uri, pattern)), None)


class BadSettings(ValueError):
    """Settings that cannot be used. The message has a line for each mistake."""


def seconds(text: object) -> float:
    """Reads a duration such as `30s`, `5m` or `500ms`. Raises `ValueError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", str(text))
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is not a duration. Write it as 30s, 5m or 1h.")
    return float(found[1]) * _UNITS[found[2] or "s"]


def poll(text: str) -> tuple[str, float]:
    """Reads an interval for URIs, `GLOB=TIME`. Raises `ValueError`."""
    pattern, _, pause = text.rpartition("=")
    if not pattern:
        raise ValueError(f"{text!r} is not a pattern with a time. Write it as 'file:///*=30s'.")
    return pattern, seconds(pause)


def call_watch(text: str, servers: Sequence[str]) -> CallWatch:
    """Reads a watched call, `tool:NAME ARGUMENT=VALUE… every=30s`. The name is the one that clients see."""
    try:
        words = shlex.split(text)
    except ValueError:  # It has a quotation without an end.
        words = []
    name = words[0].removeprefix("tool:") if words else ""
    if not name or any("=" not in word for word in words[1:]):
        raise ValueError(f"{text!r} is not a call to watch. Write it as 'tool:NAME ARGUMENT=VALUE every=30s'.")
    given = [word.split("=", 1) for word in words[1:]]
    ignore = tuple(value for key, value in given if key == "ignore")
    Ignored(ignore)
    arguments = {key: value for key, value in given if key != "ignore"}
    pause = seconds(arguments.pop("every", "30s"))
    owner = servers[0] if len(servers) == 1 else owner_of_name(name, dict.fromkeys(servers))
    if owner is None:
        raise ValueError(f"{name!r} must begin with the name of its server and _.{there_are(servers)}")
    tool = name if len(servers) == 1 else name.removeprefix(f"{owner}_")
    return CallWatch(owner, tool, arguments, pause, ignore)


def read_targets(texts: Sequence[str], environ: Mapping[str, str]) -> list[UpstreamSpec]:
    """Returns the servers that commands, URLs and files stand for. Raises `BadSettings` with every mistake."""
    specs: dict[str, UpstreamSpec] = {}
    problems: list[str] = []
    for text in texts:
        if is_file(text):
            found, wrong = _of_file(Path(text).expanduser(), environ, specs)
            specs |= {spec.name: spec for spec in found}
            problems += wrong
            continue
        try:
            target = parse_target(text, environ=environ)
        except BadTarget as error:
            problems.append(error.message)
            continue
        name = server_name(_short_name(text), specs)
        specs[name] = UpstreamSpec(name, target)
    if problems:
        raise BadSettings("\n".join(problems))
    return list(specs.values())


def is_file(text: str) -> bool:
    """Returns whether a target is a file of servers, which may change while the bridge runs."""
    return Path(text).suffix.lower() == ".json" and " " not in text.strip()


def _short_name(text: str) -> str:
    """Returns the part of a command or a URL that names the server."""
    if "://" in text:
        return re.sub(r"^\w+://", "", text).split("/")[0].split(":")[0].removeprefix("www.").removeprefix("mcp.")
    words = [word for word in shlex.split(text) if not word.startswith("-")]
    known = ("npx", "uvx", "uv", "run", "node", "python", "python3", "tidings", "docker", "bunx", "pipx")
    named = [word for word in words if PurePath(word).name not in known]
    last = PurePath((named or words or ["server"])[0])
    return re.sub(r"@[\d.]+$", "", last.stem if last.suffix in (".py", ".js", ".ts", ".mjs") else last.name)


def _of_file(
    path: Path, environ: Mapping[str, str], taken: Mapping[str, object]
) -> tuple[list[UpstreamSpec], list[str]]:
    try:
        text, entries = read_servers(path)
    except BadTarget as error:
        return [], [error.message]
    specs: list[UpstreamSpec] = []
    problems: list[str] = []
    names: dict[str, object] = dict(taken)
    for name, entry in entries.items():
        where = f"{path}, line {_line_of(text, name)}: the server {name!r}"
        try:
            target = parse_entry_target(where, name, entry, environ)
            short = server_name(name, names)
            specs.append(_with_section(where, UpstreamSpec(short, target), entry, environ))
            names[short] = None
        except BadSettings as error:
            problems.append(str(error))
        except BadTarget as error:
            problems.append(error.message if error.message.startswith(str(path)) else f"{where}: {error.message}")
    if not entries:
        problems.append(f"{path} has no server in it. Add one to its mcpServers.")
    return specs, problems


def _line_of(text: str, name: str) -> int:
    """Returns the line in which a server begins, as far as a text search tells."""
    found = re.search(rf"{re.escape(json.dumps(name))}\s*:", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _checked_rules(rules: list[str]) -> list[str]:
    Ignored(rules)
    return rules


def _checked_watch(text: object, info: ValidationInfo) -> CallWatch:
    return call_watch(str(text), [str(info.context)])


class _Section(BaseModel):
    """The section `tidings` of a server in a file. Its fields are those of `UpstreamSpec`."""

    model_config = ConfigDict(extra="forbid")
    allow: list[str] = []
    auth: ClientCredentials | None = None
    deny: list[str] = []
    ignores: dict[str, Annotated[list[str], AfterValidator(_checked_rules)]] = Field({}, alias="ignore")
    pass_token: StrictBool = False
    polls: dict[str, Annotated[float, BeforeValidator(seconds)]] = Field({}, alias="poll")
    timeout: Annotated[float, BeforeValidator(seconds)] = 120.0
    watches: list[Annotated[CallWatch, BeforeValidator(_checked_watch)]] = Field([], alias="watch")


_SECTION_KEYS: Final = [field.alias or name for name, field in _Section.model_fields.items()]


def _with_section(where: str, spec: UpstreamSpec, entry: Any, environ: Mapping[str, str]) -> UpstreamSpec:
    given = cast("Mapping[str, Any]", entry).get("tidings", {})
    try:
        if as_dict(given).get("auth") is not None:
            given = {**given, "auth": fill_texts(where, "auth", given, environ)}
        section = _Section.model_validate(given, context=spec.name)
    except ValidationError as error:
        raise BadSettings("\n".join(f"{where}: {_mistake(each)}" for each in error.errors())) from None
    rights = {"auth": section.auth is not None, "pass_token": section.pass_token}
    if any(rights.values()) and (spec.has_credentials or not isinstance(spec.target, HttpTarget)):
        names = " and ".join(name for name, given in rights.items() if given)
        raise BadSettings(f"{where}: {names} is for a server at a URL that has no credentials of its own.")
    if all(rights.values()):
        raise BadSettings(f"{where}: auth and pass_token exclude each other.")
    return replace(spec, **dict(section))


def _mistake(error: "ErrorDetails") -> str:
    """Returns one mistake in a section in words. Never the value itself: it may be a secret."""
    *above, last = ["tidings", *map(str, error["loc"])]
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = _AUTH_KEYS if error["loc"][0] == "auth" else _SECTION_KEYS
        return f"{'.'.join(above)} has no setting {last!r}.{did_you_mean(last, keys) or there_are(keys)}"
    if error["type"] in ("model_type", "dict_type", "list_type"):
        return f"{'.'.join([*above, last])} must be {'a list' if error['type'] == 'list_type' else 'an object'}."
    cause = error.get("ctx", {}).get("error")
    return f"{'.'.join([*above, last])}: {cause or error['msg']}"


def identity(specs: Sequence[UpstreamSpec]) -> str:
    """Returns a text that is equal for the same servers. It shows no secrets."""
    parts = [f"{spec.name} {getattr(spec.target, 'identity', spec.name)}" for spec in specs]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()

"""The settings of a bridge: the servers behind it, and what of them is offered, polled and watched.

A server of an `mcpServers` file may have a section `tidings` of its own:

    {"mcpServers": {"github": {"url": "https://…", "tidings": {
        "allow": ["list_*", "get_*"], "deny": ["delete_*"], "poll": {"repo://*": "30s"}, "timeout": "60s",
        "watch": ["list_runs repo=acme/app every=30s"], "ignore": {"repo://*": ["$.checked_at"]},
        "auth": {"issuer": "https://…", "client_id": "tidings", "client_secret": "${SECRET}"}, "pass_token": false}}}}
"""

import hashlib
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
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

from tidings._kit.bounded_json import as_dict, as_list
from tidings._kit.json_path import BadJsonPath, JsonPath
from tidings._kit.patterns import BadPattern, users_pattern
from tidings._kit.suggest import did_you_mean, there_are
from tidings.client.servers_file import fill_texts, read_servers
from tidings.client.targets import HttpTarget, parse_entry_target, parse_target
from tidings.errors import BadTarget

if TYPE_CHECKING:
    import httpx2
    from pydantic_core import ErrorDetails

logger = logging.getLogger(__name__)

_SECONDS: Final = 0.5  # For one pattern on one text.
_MOST: Final = 10_000  # Places that one path names.
Json = dict[str, Any]
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?=:)")
_NAME: Final = re.compile(r"[a-z][a-z0-9.-]*")
_LONGEST_NAME: Final = 32
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_AUTH_KEYS: Final = ("issuer", "client_id", "client_secret", "scope")
_Text = Annotated[str, Field(min_length=1)]


def server_name(text: str, taken: Mapping[str, object]) -> str:
    """Returns a short name for a server, made from any text, that is not `taken`."""
    name = re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip("-.")[:_LONGEST_NAME].strip("-.")
    if not _NAME.fullmatch(name):
        name = f"server-{name}".rstrip("-")
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    return unique


def owner_of_uri(uri: str, prefixes: Mapping[str, object]) -> str | None:
    """Returns the prefix among `prefixes` that the scheme of a URI begins with."""
    scheme = _SCHEME.match(uri)
    prefix, plus, _ = (scheme[0] if scheme else "").partition("+")
    return prefix if plus and prefix in prefixes else None


def owner_of_name(name: str, prefixes: Mapping[str, object]) -> str | None:
    """Returns the prefix among `prefixes` that a tool or prompt has: the longest, if there are several."""
    fitting = [prefix for prefix in prefixes if name.startswith(f"{prefix}_")]
    return max(fitting, key=len, default=None)


class Ignored:
    """Rules for what does not count as a change of a resource that is polled: a time stamp, a counter.

    A rule is a JSONPath that begins with `$`, or else a regular expression. What it names or matches is left out before
    two contents are compared. One that takes too long is skipped. Raises `ValueError` if a rule cannot be used.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        try:
            self._paths = [JsonPath(rule) for rule in rules if rule.startswith("$")]
            self._patterns = [users_pattern(rule) for rule in rules if not rule.startswith("$")]
        except (BadJsonPath, BadPattern) as error:
            raise ValueError(f"The ignore rule cannot be used: {error}.") from None

    def compared(self, contents: Any) -> Any:
        """Returns the contents of a resource without what is ignored. It may take a while: call it in a thread."""
        return [self._cleaned(as_dict(each)) for each in as_list(contents)]

    def _cleaned(self, content: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(text := content.get("text"), str):
            return content
        if self._paths:
            with suppress(ValueError, RecursionError):  # It is not JSON, or nested too deeply.
                value = json.loads(text)
                for path in self._paths:
                    path.remove(value, _MOST)
                text = json.dumps(value, sort_keys=True)
        for pattern in self._patterns:
            try:
                text = pattern.sub("", text, timeout=_SECONDS, concurrent=True)
            except TimeoutError:
                logger.warning("An ignore rule takes too long on %s: %r", content.get("uri"), pattern.pattern)
        return {**content, "text": text}


@dataclass(frozen=True)
class CallWatch:
    """A read-only tool whose answer is a live resource: see `tidings.bridge.group`."""

    server: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 30.0
    ignore: Sequence[str] = ()
    """Rules for what does not count as a change: see `Ignored`."""


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
    """One server behind the bridge.

    `allow` and `deny` are patterns for names of tools and prompts, such as `list_*`. `polls` sets the seconds between
    two reads, and `ignores` what does not count as a change, each for the URIs that match a pattern. `timeout` is the
    time limit of a request in seconds. `watches` are calls of tools whose results are resources.
    """

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
        try:
            if is_file(text):
                problems += _add_file(Path(text).expanduser(), environ, specs)
            else:
                target = parse_target(text, environ=environ)
                name = server_name(_short_name(text), specs)
                specs[name] = UpstreamSpec(name, target)
        except BadTarget as error:
            problems.append(error.message)
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


def _add_file(path: Path, environ: Mapping[str, str], specs: dict[str, UpstreamSpec]) -> list[str]:
    """Adds the servers of a file to `specs`, and returns the mistakes in it. Raises `BadTarget`."""
    text, entries = read_servers(path)
    problems = [] if entries else [f"{path} has no server in it. Add one to its mcpServers."]
    for name, entry in entries.items():
        found = re.search(rf"{re.escape(json.dumps(name))}\s*:", text)
        line = text.count("\n", 0, found.start()) + 1 if found else 1
        where = f"{path}, line {line}: the server {name!r}"
        try:
            target = parse_entry_target(where, name, entry, environ)
            short = server_name(name, specs)
            specs[short] = _with_section(where, UpstreamSpec(short, target), entry, environ)
        except BadSettings as error:
            problems.append(str(error))
        except BadTarget as error:
            problems.append(error.message if error.message.startswith(str(path)) else f"{where}: {error.message}")
    return problems


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

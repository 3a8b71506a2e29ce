"""Targets: what `connect()` was given, as one of three values, or refused with the reason and what to do.

No target shows its secrets, neither in its `name` nor in its `repr`. `clean` removes them from any other text.
"""

import json
import os
import re
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final, Literal, cast

import httpx2
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer

from tidings._kit.text import shortened
from tidings.client.accounts import default_accounts
from tidings.client.masking import forms, masked, shown_arguments, shown_url, url_secrets
from tidings.client.servers_file import ServersFileEntry, parse_entry, read_entry
from tidings.errors import BadTarget


class _Target:
    @cached_property
    def secrets(self) -> frozenset[str]:
        """Texts of six characters or more that must not be shown."""
        return forms(self._secret_values())

    def clean(self, text: str) -> str:
        """Returns `text` with every secret of this target masked."""
        return masked(text, self.secrets)

    @cached_property
    def name(self) -> str:
        """A short name for people, without secrets."""
        text = shortened(self.clean(self._shown()), 120)
        return self.clean("".join(char if char.isprintable() else " " for char in text))

    def __repr__(self) -> str:
        return self.clean(f"{type(self).__name__}({self.name!r})")

    def _secret_values(self) -> set[str]:
        return set()

    def _shown(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class HttpTarget(_Target):
    """A server at a URL. `kind` is its transport, if known: streamable HTTP, or the older SSE."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    auth: httpx2.Auth | None = None
    kind: Literal["http", "sse"] | None = None
    title: str = ""
    hidden: frozenset[str] = frozenset()
    _unique: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, compare=False)

    @property
    def identity(self) -> str:
        """Identifies the server and the credentials. Not for people: it is only used hashed."""
        headers = sorted((name.lower(), value) for name, value in self.headers.items())
        # It cannot be known whom an `auth` object signs in, so each target with one is unique.
        return json.dumps(["http", self.url, headers, self._unique if self.auth else None])

    @property
    def has_credentials(self) -> bool:
        """It has its own: a header, an `auth` object or a user in the URL."""
        has_header = any(name.lower() == "authorization" for name in self.headers)
        return has_header or self.auth is not None or bool(httpx2.URL(self.url).userinfo)

    def _secret_values(self) -> set[str]:
        return {*self.headers.values(), *self.hidden} | url_secrets(self.url)

    def _shown(self) -> str:
        return self.title or shown_url(self.url)


@dataclass(frozen=True, repr=False)
class CommandTarget(_Target):
    """A server that is a program, with messages on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    title: str = ""
    hidden: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        return json.dumps(["command", self.command, self.args, sorted(self.env.items()), self.cwd])

    def _secret_values(self) -> set[str]:
        return {*self.env.values(), *self.hidden} | shown_arguments(self.args)[1]

    def _shown(self) -> str:
        words = [self.command, *shown_arguments(self.args)[0]]
        quoted = (shlex.quote(word) if not word or re.search(r"\s", word) else word for word in words)
        return self.title or " ".join(quoted)


@dataclass(frozen=True, repr=False)
class ServerTarget(_Target):
    """A server object in this process, for the SDK's client. `lifespan` is entered around it."""

    server: Server[Any] | MCPServer[Any]
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None

    @property
    def identity(self) -> str:
        kind = type(self.server)
        return json.dumps(["server", kind.__module__, kind.__qualname__, self.server.name])

    def _shown(self) -> str:
        return self.server.name


Target = HttpTarget | CommandTarget | ServerTarget

_FORMS: Final = (
    "a URL that begins with http:// or https://, a command, a JSON file with mcpServers in it, or a server object"
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_JSON_FILE: Final = re.compile(r"(?P<file>.+?\.json)(?:#(?P<name>.*))?", re.IGNORECASE | re.DOTALL)
_HOST_AND_PORT: Final = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(?:/\S*)?")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~\w-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")


@dataclass(frozen=True)
class _Given:
    headers: Mapping[str, str] | None = None
    token: str | None = None
    auth: httpx2.Auth | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None

    def refuse(self, kind: str, *names: str) -> None:
        """Raises `BadTarget` if an option was given that does not fit this kind of target."""
        for name in names:
            if getattr(self, name) is not None:
                cure = "Pass it to the program in env=" if kind == "a command" else "Leave it out"
                raise BadTarget(f"{name}= was given, but the target is {kind}, which does not use it. {cure}.")


def parse_target(
    target: object,
    *,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    auth: httpx2.Auth | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Target:
    """Returns the value of `target`, or raises `BadTarget`. `tidings.connect` describes the arguments."""
    given = _Given(
        _texts("headers", headers),
        _text("token", token),
        auth,
        _texts("env", env),
        _text("cwd", os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd),
    )
    match target:
        case str():
            return _from_text(target, given, environ or {})
        case PurePath():
            found = _JSON_FILE.fullmatch(str(target))
            file, name = (found["file"], found["name"]) if found else (str(target), None)
            return _from_entry(read_entry(Path(file), name, environ or {}), given)
        case Sequence() if not isinstance(target, bytes | bytearray | memoryview):
            return _from_words(cast("Sequence[object]", target), given)
        case _:
            return _from_object(target, given)


def parse_entry_target(where: str, name: str, raw: object, environ: Mapping[str, str]) -> Target:
    """Returns the target of one entry of an `mcpServers` file. `where` begins the message of `BadTarget`."""
    return _from_entry(parse_entry(where, name, raw, environ), _Given())


def _from_text(text: str, given: _Given, environ: Mapping[str, str]) -> Target:
    text = text.strip()
    if scheme := _SCHEME.match(text):
        if scheme[1].lower() not in ("http", "https"):
            raise BadTarget(f"{shown_url(text)} begins with {scheme[0]}, which MCP does not use. Pass {_FORMS}.")
        return _http(ServersFileEntry("", url=text), given)
    found = _JSON_FILE.fullmatch(text)
    if found and (Path(found["file"]).is_file() or len(_split(text)) == 1):
        return _from_entry(read_entry(Path(found["file"]), found["name"], environ), given)
    if _HOST_AND_PORT.fullmatch(text):
        raise BadTarget(f"{text!r} looks like a URL without its scheme. Did you mean http://{text}?")
    return _command(_split(text), given)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadTarget(f"The command cannot be split into words: {error}. Pass it as a list of strings.") from None


def _from_words(words: Sequence[object], given: _Given) -> CommandTarget:
    texts: list[Any] = [str(word) if isinstance(word, PurePath) else word for word in words]
    for place, word in enumerate(texts):
        if not isinstance(word, str):
            raise BadTarget(f"A command is a list of strings; number {place + 1} in this one is {_type(word)}.")
    if len(texts) == 1 and _SCHEME.match(texts[0]):
        raise BadTarget(f"{shown_url(texts[0])} is in a list, which makes it a command. Pass a URL as a string.")
    return _command(texts, given)


def _command(words: Sequence[str], given: _Given, entry: ServersFileEntry | None = None) -> CommandTarget:
    given.refuse("a command", "headers", "token", "auth")
    if not words or not words[0].strip():
        raise BadTarget(f"The command is empty. Pass {_FORMS}.")
    entry = entry or ServersFileEntry("")
    merged, cwd = {**entry.env, **(given.env or {})}, given.cwd or entry.cwd
    if any("\0" in text for text in (*words, *merged, *merged.values(), cwd or "")):
        raise BadTarget(f"The command {' '.join(shown_arguments(words)[0])!r} has a null character in it. Remove it.")
    for name in merged:
        if not name or "=" in name:
            raise BadTarget(f"env has a variable called {name!r}, which no system accepts. Rename it.")
    return CommandTarget(words[0], tuple(words[1:]), merged, cwd, entry.name, entry.hidden)


def target_of(entry: ServersFileEntry) -> HttpTarget | CommandTarget:
    """Returns the target of an entry of a file of servers. `connect()` accepts it. Raises `BadTarget`.

    A server at a URL without credentials gets those of the account that is signed in there, if there is one.
    """
    target = _from_entry(entry, _Given())
    if (
        isinstance(target, HttpTarget)
        and not target.has_credentials
        and default_accounts().get(target.url, entry.account)
    ):
        from tidings.client.sign_in import kept_sign_in  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

        return replace(target, auth=kept_sign_in(target.url, entry.account))
    return target


def _from_entry(entry: ServersFileEntry, given: _Given) -> HttpTarget | CommandTarget:
    if entry.command is None:
        return _http(entry, given)
    return _command((entry.command, *entry.args), given, entry)


def _http(entry: ServersFileEntry, given: _Given) -> HttpTarget:
    given.refuse("a URL", "env", "cwd")
    url = entry.url or ""
    has_userinfo = _checked_url(url)
    own = _headers(given.headers)
    replaced = {name.lower() for name in own}
    merged = {name: value for name, value in _headers(entry.headers).items() if name.lower() not in replaced} | own
    ways = {
        "token=": given.token is not None,
        "auth=": given.auth is not None,
        "an Authorization header": any(name.lower() == "authorization" for name in merged),
        "a user in the URL": has_userinfo,
    }
    if len(several := [way for way, used in ways.items() if used]) > 1:
        raise BadTarget(f"The server would get {' and '.join(several)}, but can use only one. Leave the others out.")
    if given.auth is not None and not callable(getattr(given.auth, "async_auth_flow", None)):
        raise BadTarget(f"auth= must be an httpx2.Auth, not {_type(given.auth)}. For a bearer token, use token=.")
    if given.token is not None:
        bare = given.token.removeprefix("Bearer ")
        if not bare.strip():
            raise BadTarget("The token is empty. Pass one, or leave token= out.")
        merged |= _headers({"Authorization": f"Bearer {bare}"})
    return HttpTarget(url, merged, given.auth, entry.kind, entry.name, entry.hidden)


def _checked_url(url: str) -> bool:
    """Returns whether a URL names a user. Raises `BadTarget` if it cannot be connected to."""
    cure = "It must look like https://example.com/mcp."
    if not (scheme := _SCHEME.match(url)) or scheme[1].lower() not in ("http", "https"):
        raise BadTarget(f"{shown_url(url)!r} does not begin with http:// or https://. {cure}")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        why = "" if "@" in url else f": {error}"  # The error might quote a part of a password.
        raise BadTarget(f"{shown_url(url)} is not a URL{why}. {cure}") from None
    wrong = "has no host" if not parsed.host else "has a space in it" if re.search(r"\s", url) else None
    if wrong or (parsed.port or 0) > 65535:
        raise BadTarget(f"{shown_url(url)!r} {wrong or 'has a port beyond 65535'}. {cure}")
    return bool(parsed.userinfo)


def _headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise BadTarget(f"{name!r} is not a valid header name. Use letters, digits and -.")
        if not _HEADER_VALUE.fullmatch(value):
            what = "a line break" if "\n" in value or "\r" in value else "a character that HTTP does not allow"
            raise BadTarget(f"The header {name} has {what} in it. Remove it; perhaps it came from the end of a file.")
    return {name: value.strip() for name, value in (headers or {}).items()}


def _from_object(target: object, given: _Given) -> Target:
    given.refuse("an object", "headers", "token", "auth", "env", "cwd")
    if isinstance(target, Target):
        return target  # It was checked before.
    if isinstance(target, MCPServer | Server):
        return ServerTarget(cast("MCPServer[Any] | Server[Any]", target))
    if any(kind.__module__.startswith("fastmcp.") and kind.__name__ == "FastMCP" for kind in type(target).__mro__):
        try:
            server: Any = target
            return ServerTarget(server._mcp_server, server._lifespan_manager)  # noqa: SLF001 - pinned by a test
        except AttributeError as error:
            text = f"This version of FastMCP is not known ({error}). Serve it over HTTP, and pass its URL."
            raise BadTarget(text) from None
    raise BadTarget(f"Cannot connect to {_type(target)}. Pass {_FORMS}.")


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadTarget(f"{name}= must be a string, not {_type(value)}.")
    return value


def _texts(name: str, values: object) -> dict[str, str] | None:
    if values is None:
        return None
    if not isinstance(values, Mapping):
        raise BadTarget(f"{name}= must be a mapping of strings to strings, not {_type(values)}.")
    pairs = dict(cast("Mapping[Any, Any]", values))
    for key, value in pairs.items():
        if not isinstance(key, str) or not isinstance(value, str):
            wrong = f"{key!r} is {_type(value)}" if isinstance(key, str) else f"a name is {_type(key)}"
            raise BadTarget(f"{name}= must be a mapping of strings to strings; {wrong}.")
    return pairs


def _type(value: object) -> str:
    """Returns the type of a value. Never the value itself: it may be a secret."""
    return "None" if value is None else f"an object of type {type(value).__module__}.{type(value).__qualname__}"

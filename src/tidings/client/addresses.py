"""The four kinds of what can be connected to, as values.

None shows its secrets: not in its `name`, not in its `repr`; `clean` takes them out of any other text.
"""

import json
import re
import shlex
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import httpx2
from mcp.client import Transport
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer

from tidings.client.masking import forms, masked, shown_arguments, shown_url, url_secrets

_LONGEST_NAME: Final = 120


class _Target:
    """What all targets have."""

    @cached_property
    def secrets(self) -> frozenset[str]:
        """What no text may show, of six characters or more."""
        return forms(self._secret_values())

    def clean(self, text: str) -> str:
        """`text` with every secret of this target masked."""
        return masked(text, self.secrets)

    @cached_property
    def name(self) -> str:
        """What it is called, in short and without a secret."""
        text = self.clean(self._shown())
        text = text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
        return self.clean("".join(char if char.isprintable() else " " for char in text))

    def __repr__(self) -> str:
        return self.clean(f"{type(self).__name__}({self.name!r})")

    def _secret_values(self) -> set[str]:
        return set()

    def _shown(self) -> str:
        """What it would be called if nothing else in the name were secret."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class HttpTarget(_Target):
    """A server at a URL. `kind` is its transport, if that is known: streamable HTTP, or the older SSE."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    auth: httpx2.Auth | None = None
    kind: Literal["http", "sse"] | None = None
    title: str | None = None
    hidden: frozenset[str] = frozenset()
    _unique: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, compare=False)

    @property
    def identity(self) -> str:
        """The server together with the credentials. Not for people: only ever used hashed.

        Nothing can be told of who an `auth` object stands for, so each such target is one of its own.
        """
        headers = sorted((name.lower(), value) for name, value in self.headers.items())
        return json.dumps(["http", self.url, headers, self._unique if self.auth else None])

    @property
    def has_credentials(self) -> bool:
        """Whether the server is sent something that may tell it who asks: any header of the user's may be that."""
        return bool(self.headers or self.auth or httpx2.URL(self.url).userinfo)

    def _secret_values(self) -> set[str]:
        return {*self.headers.values(), *self.hidden} | url_secrets(self.url)

    def _shown(self) -> str:
        return self.title or shown_url(self.url)


@dataclass(frozen=True, repr=False)
class CommandTarget(_Target):
    """A server that is a program, spoken to over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    title: str | None = None
    hidden: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """The command with all that it is given. Not for people: only ever used hashed."""
        return json.dumps(["command", self.command, self.args, sorted(self.env.items()), self.cwd])

    def _secret_values(self) -> set[str]:
        return {*self.env.values(), *self.hidden} | shown_arguments(self.args)[1]

    def _shown(self) -> str:
        words = [self.command, *shown_arguments(self.args)[0]]
        return self.title or " ".join(
            shlex.quote(word) if not word or re.search(r"\s", word) else word for word in words
        )


@dataclass(frozen=True, repr=False)
class ServerTarget(_Target):
    """A server object in this process: one that the SDK's client takes. `lifespan` is entered around it."""

    server: Server[Any] | MCPServer[Any]
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None

    @property
    def identity(self) -> str:
        """The kind and name of the server."""
        kind = type(self.server)
        return json.dumps(["server", kind.__module__, kind.__qualname__, self.server.name])

    def _shown(self) -> str:
        return self.server.name


@dataclass(frozen=True, repr=False)
class TransportTarget(_Target):
    """A transport of the SDK's, or anything that is entered and gives two streams.

    Such an object can be entered once: a connection over it that is lost cannot be opened again.
    """

    transport: Transport
    _unique: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, compare=False)

    @property
    def identity(self) -> str:
        """Unlike any other: nothing is known of what a transport leads to."""
        return json.dumps(["transport", self._unique])

    def _shown(self) -> str:
        return type(self.transport).__name__.strip("_")


Target = HttpTarget | CommandTarget | ServerTarget | TransportTarget

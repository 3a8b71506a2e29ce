"""`connect()`: from what a user has (a URL, a command, a file, a server object) to a live client."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
from mcp_types import LoggingLevel
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tidings.client.config import ClientConfig
from tidings.client.live import LiveClient
from tidings.client.questions import ASK, Responder
from tidings.client.responders import roots_responder, script_responder
from tidings.client.targets import parse_target
from tidings.client.wire import Tap


def connect(
    target: object,
    *,
    era: str = "auto",
    config: ClientConfig | None = None,
    state: str | Path | None = None,
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    auth: httpx2.Auth | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    answer: Responder | str | Path | None = None,
    roots: Sequence[str | Path] | None = None,
    log_level: LoggingLevel | None = None,
    tap: Tap | None = None,
) -> LiveClient:
    """A client of the server that `target` names, to be used with `async with`.

    Args:
        target: A URL (`"https://host/mcp"`; streamable HTTP, or SSE where the server has only that), a command
            (`["python", "server.py"]`, or one text), a JSON file of servers (`"mcp.json#name"`), or a server object.
        era: `"auto"` takes the newest that both sides speak; `"legacy"` the old handshake; or a modern version.
        config: Timeouts, limits, backoff.
        state: A file that keeps content, subscriptions and the place in the server's log for the next process.
        headers: Sent with each HTTP request.
        token: Sent as `Authorization: Bearer …`.
        auth: An `httpx2.Auth`, such as the SDK's `OAuthClientProvider`.
        env: Added to the environment of a command.
        cwd: The folder in which a command runs.
        environ: Where a file's `${VARIABLES}` are looked up: pass `os.environ`.
        answer: Who answers what the server asks of the user: `"ask"` puts it into `client.pending`; a function; or
            the path of a script in YAML or JSON. Without it the server is told that nobody can be asked.
        roots: The folders or URIs that the server may work in.
        log_level: The least level of log messages that the server should send.
        tap: Hears of each message and HTTP exchange, secrets masked: see `tidings.client.wire`.

    Raises:
        BadTarget: `target` was not understood, or an option does not fit it.
        ValueError: `era` or `answer` is none of the above.
    """
    if era not in ("auto", "legacy", *MODERN_PROTOCOL_VERSIONS):
        hint = " (for this version use era='legacy')" if era in HANDSHAKE_PROTOCOL_VERSIONS else ""
        raise ValueError(f"era is 'auto', 'legacy' or one of {', '.join(MODERN_PROTOCOL_VERSIONS)}, not {era!r}{hint}")
    return LiveClient(
        parse_target(target, headers=headers, token=token, auth=auth, env=env, cwd=cwd, environ=environ or {}),
        era=era,
        config=config,
        state=None if state is None else Path(state),
        answer=_responder(answer),
        roots=None if roots is None else roots_responder(roots),
        log_level=log_level,
        tap=tap,
    )


def _responder(answer: Any) -> Responder | None:
    if answer is None or callable(answer):
        return answer
    if answer == "ask":
        return lambda _: ASK
    if isinstance(answer, str | Path):
        return script_responder(answer)
    raise ValueError(f"answer is 'ask', a function or the path of a script, not {type(answer).__name__}")

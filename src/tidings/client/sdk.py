"""The SDK's client, made and mended for us: what is the same for every connection of a live client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from mcp import Client
from mcp.client.session import ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp.shared.dispatcher import CallOptions, Dispatcher
from mcp_types import Implementation, LoggingLevel

from tidings._version import __version__
from tidings.client.config import ClientConfig
from tidings.client.queue import QueueEntry
from tidings.client.shapes import as_list
from tidings.client.tapping import Teller
from tidings.client.targets import Target
from tidings.client.transports import current_call

CLIENT_INFO: Final = Implementation(name="tidings", version=__version__)
AUTO: Final = "auto"
LEGACY: Final = "legacy"


@dataclass(frozen=True, slots=True)
class Setup:
    """What every connection of one client is made with."""

    target: Target
    config: ClientConfig
    era: str = "auto"
    log_level: LoggingLevel | None = None
    sampling: SamplingFnT | None = None
    elicitation: ElicitationFnT | None = None
    roots: ListRootsFnT | None = None
    on_stderr: Callable[[str], None] = lambda _: None
    on_garbage: Callable[[str], None] = lambda _: None
    teller: Teller | None = None


def make_client(setup: Setup, server: Any) -> Client:
    """The SDK's client of `server`: a transport, or a server object."""
    return Client(
        server,
        # To insist on a version, the SDK would take the server's word for granted, and know nothing about it.
        mode=LEGACY if setup.era == LEGACY else AUTO,
        cache=None,
        client_info=CLIENT_INFO,
        log_level=setup.log_level,
        sampling_callback=setup.sampling,
        elicitation_callback=setup.elicitation,
        list_roots_callback=setup.roots,
    )


def complete(
    dispatcher: Dispatcher[Any], *, on_speaks: Callable[[list[Any]], None], is_modern: Callable[[], bool]
) -> None:
    """Have the server tell how far it is with any request: of the SDK's methods only `call_tool` could ask for it.
    And take an answer that does not say which kind of result it is for a complete one: the SDK would refuse it.

    Args:
        dispatcher: What sends.
        on_speaks: Told the versions that the server speaks, when it says so.
        is_modern: Whether hands were shaken, in the modern era.
    """
    send: Any = dispatcher.send_raw_request

    async def sent(method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        options, call = cast("CallOptions", {**(opts or {})}), current_call.get()
        # Whoever runs within a call may send something else: how far that is says nothing of the call.
        if isinstance(call, QueueEntry) and call.method == method and call.on_progress is not None:
            options["on_progress"] = call.on_progress
        result: dict[str, Any] = await send(method, params, options)
        if method == "server/discover":
            on_speaks(as_list(result.get("supportedVersions")))
        if "resultType" in result or not is_modern():
            return result
        return {"resultType": "complete", **result}

    cast("Any", dispatcher).send_raw_request = sent

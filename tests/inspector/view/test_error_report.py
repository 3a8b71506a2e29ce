"""Errors say who is at fault and what to do."""

import asyncio
from dataclasses import asdict

import pytest

from tidings.errors import (
    CommandFailed,
    ConnectFailed,
    ConnectionLost,
    ConnectTimedOut,
    EffectUnknown,
    GaveUp,
    RequestFailed,
    TidingsError,
    leaves,
)
from tidings.inspector.view.error_report import error_view
from tidings.inspector.view.items import ErrorView


@pytest.mark.parametrize("kind", list(leaves()), ids=lambda kind: kind.code)
def test_every_error_has_somebody_at_fault_and_a_cure(kind: type[TidingsError]) -> None:
    view = error_view(kind("It went wrong.", method="tools/call", elapsed=1.5))
    assert ErrorView.read(asdict(view)) == view
    assert view.who in ("you", "the network", "the server", "this program")
    assert view.cure
    assert (view.code, view.category, view.message) == (kind.code, kind.category.value, "It went wrong.")
    assert view.help == f"tidings explain {kind.code}"
    assert (view.method, view.elapsed, view.retryable) == ("tools/call", 1.5, kind.retryable)


@pytest.mark.parametrize(
    ("error", "who"),
    [
        (RequestFailed("no", data={"rpc_code": -32602}), "you"),
        (RequestFailed("no", data={"rpc_code": -32601}), "the server"),
        (RequestFailed("no", data={"rpc_code": -32603}), "the server"),
        (ConnectionLost("gone"), "the network"),
        (CommandFailed("x could not be started: there is no such program."), "you"),
        (CommandFailed("x ended at once."), "the server"),
        (ConnectFailed("x is not an address that can be connected to"), "you"),
        (ValueError("cannot be sent"), "you"),
        (asyncio.CancelledError(), "you"),
        (KeyError("x"), "this program"),
    ],
)
def test_who_is_at_fault_depends_on_what_happened(error: BaseException, who: str) -> None:
    assert error_view(error).who == who


@pytest.mark.parametrize("kind", [ConnectionLost, ConnectTimedOut, EffectUnknown, GaveUp])
def test_between_here_and_a_process_there_is_no_network_to_blame(kind: type[TidingsError]) -> None:
    assert error_view(kind("gone"), is_command=True).who == "the server"
    assert error_view(kind("gone")).who == "the network"


def test_a_huge_payload_is_cut() -> None:
    assert error_view(RequestFailed("no", data={"rpc_data": "x" * 100_000})).payload["cut"] is True

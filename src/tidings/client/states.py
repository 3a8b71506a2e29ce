"""The states of a connection, as data: two enums, and one table of transitions.

Connecting goes from `disconnected` over `connecting` to `connected`; disconnecting over `disconnecting` back. A failure
leads to `error`, and from there to another attempt or, when the tries are used up, to `disconnected`.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of a connection."""

    DISCONNECTED = "disconnected"
    """Not asked for, ended on purpose, or the tries are used up."""
    CONNECTING = "connecting"
    """An attempt is in progress."""
    CONNECTED = "connected"
    """The handshake is done, and the server answers."""
    DISCONNECTING = "disconnecting"
    """It is being closed on purpose."""
    ERROR = "error"
    """An attempt failed, or the connection was lost. Another attempt follows, unless the client gives up."""


class Signal(StrEnum):
    """An event that changes the state."""

    CONNECT = "connect"
    HANDSHAKE_COMPLETE = "handshake_complete"
    TIMEOUT = "timeout"
    TRANSPORT_ERROR = "transport_error"
    CONNECTION_LOST = "connection_lost"
    RECONNECT = "reconnect"
    GIVE_UP = "give_up"
    DISCONNECT = "disconnect"
    CLEANUP_COMPLETE = "cleanup_complete"


TRANSITIONS: Final[dict[tuple[State, Signal], State]] = {
    (State.DISCONNECTED, Signal.CONNECT): State.CONNECTING,
    (State.CONNECTING, Signal.HANDSHAKE_COMPLETE): State.CONNECTED,
    (State.CONNECTING, Signal.TIMEOUT): State.ERROR,
    (State.CONNECTING, Signal.TRANSPORT_ERROR): State.ERROR,
    (State.CONNECTING, Signal.DISCONNECT): State.DISCONNECTING,
    (State.CONNECTED, Signal.CONNECTION_LOST): State.ERROR,
    (State.CONNECTED, Signal.DISCONNECT): State.DISCONNECTING,
    (State.ERROR, Signal.RECONNECT): State.CONNECTING,
    (State.ERROR, Signal.GIVE_UP): State.DISCONNECTED,
    (State.ERROR, Signal.DISCONNECT): State.DISCONNECTING,
    (State.DISCONNECTING, Signal.CLEANUP_COMPLETE): State.DISCONNECTED,
}
"""All transitions. A signal without one in the current state is a fault in this program."""


def next_state(state: State, signal: Signal) -> State:
    """Returns the state that `signal` leads to. Raises `ValueError` if there is no such transition."""
    try:
        return TRANSITIONS[state, signal]
    except KeyError:
        raise ValueError(f"No transition from {state.value} on {signal.value}") from None

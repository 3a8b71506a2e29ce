"""The states of a connection, as data: two enums, and one table of what leads where.

The way there is `disconnected`, `connecting`, `connected`; the way back `disconnecting`, `disconnected`. What goes
wrong leads to `error`, and from there to another attempt or, when the tries are used up, to `disconnected`.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a connection stands."""

    DISCONNECTED = "disconnected"
    """Nobody has asked for a connection, somebody ended it, or the tries are used up."""

    CONNECTING = "connecting"
    """An attempt is under way."""

    CONNECTED = "connected"
    """The handshake is done, and the server answers."""

    DISCONNECTING = "disconnecting"
    """Somebody asked to end it; what is open is being closed."""

    ERROR = "error"
    """An attempt failed, or the connection was lost. Another attempt follows, unless it is given up."""


class Signal(StrEnum):
    """What can happen to a connection."""

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
"""Every transition there is. A signal that has none in a state is a fault in this program."""


def next_state(state: State, signal: Signal) -> State:
    """The state that `signal` leads to.

    Raises:
        ValueError: There is no such transition.
    """
    try:
        return TRANSITIONS[state, signal]
    except KeyError:
        raise ValueError(f"No transition from {state.value} on {signal.value}") from None

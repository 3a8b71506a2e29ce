"""What went wrong with the server of a `RedisBus`, in words that name the cause and the cure.

May import: `errors`.
"""

import re
from typing import Final

from tidings.bus._redis_script import FOREIGN, NO_RUN, SCHEMA, UNKNOWN_SCHEMA
from tidings.bus._redis_server import exceptions
from tidings.errors import BusMismatch, BusUnavailable

_START_AFRESH: Final = (
    "It only holds recent changes: delete its keys while no server runs, or give this bus another prefix."
)
_IN_USE: Final = "has something else under the keys of this bus, which was left as it is. Give this bus another prefix."
_PERMISSIONS: Final = (
    "does not permit this user what a bus needs ({error}). With 'tidings' for the prefix, that is: "
    "~{{tidings}}:* &{{tidings}}:* +@hash +@sortedset +@scripting +@pubsub +unlink +exists +info +time +ping."
)
_NO_RUN: Final = (
    "does not say in INFO which run of it this is (run_id, master_replid), so a bus could not tell when changes were "
    "lost. Use a Redis or Valkey that is reached without a proxy."
)
_OTHER_SCHEMA: Final = (
    f"has a log that was written by another version of Tidings ({{error}}; this one has schema {SCHEMA}). "
    f"Let all processes use the same version. {_START_AFRESH}"
)

_UNAVAILABLE: Final = {
    "OOM": "has no memory left for this bus (maxmemory is used up). Give it more, or free some.",
    "READONLY": "is a read-only replica. Give this bus the URL of the master, or of its sentinels.",
    "MISCONF": "does not write at present, because it cannot save ({error}). Look at its disk.",
    "NOPERM": _PERMISSIONS,
    "The user executing the script": _PERMISSIONS,
    "ACL failure in script": _PERMISSIONS,
}
_MISMATCH: Final = {"WRONGTYPE": _IN_USE, FOREIGN: _IN_USE, UNKNOWN_SCHEMA: _OTHER_SCHEMA, NO_RUN: _NO_RUN}

# A code begins most answers, but may stand in the middle of one about a script that failed, or be missing there.
_CODE: Final = re.compile("|".join(rf"\b{code}\b" for code in (*_UNAVAILABLE, *_MISMATCH)))

_KINDS: Final[list[tuple[tuple[type[Exception], ...], str]]] = [
    ((exceptions.OutOfMemoryError,), _UNAVAILABLE["OOM"]),
    ((exceptions.ReadOnlyError,), _UNAVAILABLE["READONLY"]),
    ((exceptions.NoPermissionError,), _PERMISSIONS),
    (
        (TimeoutError, exceptions.TimeoutError),
        "did not answer within {seconds:g} s. Look whether it hangs, or the network does.",
    ),
    (
        (exceptions.AuthenticationError, exceptions.AuthorizationError),
        "refuses the user or the password of the URL ({error}). Correct them.",
    ),
    ((exceptions.BusyLoadingError,), "is starting, and still reads its data. Wait a moment."),
    (
        (exceptions.InvalidResponse, UnicodeError),
        "does not speak as a Redis does ({error}). Look at host and port; for TLS, write rediss://.",
    ),
    ((exceptions.ConnectionError, OSError), "cannot be reached ({error}). Look whether it runs, and at host and port."),
]


def explain(error: Exception, place: str, seconds: float) -> BusUnavailable | BusMismatch:
    """The error to raise in place of `error`, which came of asking the server at `place` for so many `seconds`."""
    if isinstance(error, BusUnavailable | BusMismatch):
        return error
    found = _CODE.search(str(error)) if isinstance(error, exceptions.ResponseError) else None
    code = found.group() if found else ""
    kind = BusMismatch if code in _MISMATCH else BusUnavailable
    cause = _MISMATCH.get(code) or _UNAVAILABLE.get(code) or _cause(error)
    return kind(f"The Redis at {place} {cause.format(error=str(error).rstrip('.'), seconds=seconds)}")


def _cause(error: Exception) -> str:
    # A refusal of the package's own kinds, without its code.
    known = (cause for kinds, cause in _KINDS if isinstance(error, kinds))
    return next(known, "does not do what a bus needs ({error}).")


def unknown_change(place: str, error: ValueError) -> BusMismatch:
    return BusMismatch(f"The Redis at {place} has a change that this Tidings does not know: {error}. {_START_AFRESH}")


def not_durable(place: str, found: str) -> BusMismatch:
    return BusMismatch(
        f"The Redis at {place} does not sync each write ({found}), so it is not durable. "
        "Set appendonly yes and appendfsync always, or leave out durable: then a restart of it begins a new epoch."
    )

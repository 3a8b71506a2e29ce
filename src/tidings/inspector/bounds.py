"""JSON values within bounds: how large one is, the beginning of one, one as a line, whatever it is made of.

May import: nothing of Tidings, nor the SDK.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

HEAD: Final = 16_384
"""How much of what is cut is kept, in characters."""


def cut(value: Any, size: int, head: int = HEAD) -> dict[str, Any]:
    """What is kept of a value that is too large: its size, and the beginning of it as text."""
    return {"cut": True, "size": size, "head": head_of(value, head)}


def is_cut(value: object) -> bool:
    """Whether this is what `cut` left of a value."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).get("cut") is True and "head" in value


def head_of(value: Any, length: int = HEAD) -> str:
    """The beginning of a value as text. Costs what the beginning costs, not what the value does."""
    if isinstance(value, str):
        return value[:length]
    pieces: list[str] = []
    left = length
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(_begun(value, length)):
            pieces.append(piece[:left])
            left -= len(piece)
            if left <= 0:
                break
    except (TypeError, ValueError, RecursionError):
        pieces.append("…")
    return "".join(pieces)


def _begun(value: Any, length: int, depth: int = 0) -> Any:
    """The value with each text and each list in it no longer than `length`."""
    if isinstance(value, str):
        return value[:length]
    if depth > 50:
        return "…"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return {str(key)[:length]: _begun(each, length, depth + 1) for key, each in _some(pairs, length)}
    if isinstance(value, list | tuple):
        return [_begun(each, length, depth + 1) for each in cast("list[Any]", value)[: length // 2 + 1]]
    return value


def _some(pairs: Any, length: int) -> Any:
    for number, pair in enumerate(pairs):
        if number > length:
            return
        yield pair


def weigh(value: Any, stop: int = 2**62) -> int:
    """About how many bytes a JSON value takes, and not much more than `stop` if it is larger. Never fails."""
    size = 0
    waiting: list[Any] = [value]
    while waiting and size <= stop:
        found = waiting.pop()
        if isinstance(found, str):
            size += len(found) + 2
        elif isinstance(found, dict):
            mapping = cast("dict[Any, Any]", found)
            size += 2 + 4 * len(mapping)
            waiting += mapping.keys()
            waiting += mapping.values()
        elif isinstance(found, list | tuple):
            items = cast("list[Any]", found)
            size += 2 + len(items)
            waiting += items
        else:
            size += 8
    return size


def dumps(value: Any) -> str:
    """JSON in one line of ASCII, whatever the value: what JSON cannot say is said as a text."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return _ENCODER.encode(plain(value))


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


def plain(value: Any, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind of value
    """The value as JSON can say it: names are texts; no NaN, no endless depth, no objects."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -(10**300) < value < 10**300 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if depth > 200:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): plain(each, depth + 1) for key, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in cast("list[Any]", value)]
    return str(value)


def in_order(value: Any) -> Any:
    """The value with the keys of its objects in order, so that what is equal is written alike."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {key: in_order(each) for key, each in sorted(pairs, key=lambda pair: str(pair[0]))}
    return [in_order(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value

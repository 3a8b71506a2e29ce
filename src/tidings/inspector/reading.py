"""Reading JSON that nobody has checked: what is not of the type that is expected counts as not there.

May import: nothing of Tidings, nor the SDK.
"""

from typing import Any, Final, cast

_MOST: Final = 2**53


def as_dict(value: object) -> dict[str, Any]:
    """The object, or an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_dict_or_none(value: object) -> dict[str, Any] | None:
    """The object, or None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any]:
    """The list, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_dicts(value: object) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [cast("dict[str, Any]", each) for each in as_list(value) if isinstance(each, dict)]


def as_texts(value: object) -> list[str]:
    """The texts in a list."""
    return [each for each in as_list(value) if isinstance(each, str)]


def as_text(value: object) -> str | None:
    """The text, or None."""
    return value if isinstance(value, str) else None


def as_int(value: object) -> int | None:
    """The whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_float(value: object) -> float | None:
    """The number, or None; one that is not finite, or too large to reckon with, is none."""
    if type(value) is float:
        return value if value - value == 0 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None


def as_size(value: object) -> int:
    """A number of bytes or of things: 0 if it is none, and never so large that a sum of them means nothing."""
    if type(value) is not int:  # Neither true nor false, which are numbers too in Python.
        return 0
    return value if 0 <= value <= _MOST else 0 if value < 0 else _MOST

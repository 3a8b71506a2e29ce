"""What came over the wire, of whatever shape, as a value of a known one."""

from typing import Any, cast


def as_dict(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """`value` if it is a text."""
    return value if isinstance(value, str) else None

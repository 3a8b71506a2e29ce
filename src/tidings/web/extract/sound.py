"""Text that can be written: without halves of characters, which JSON can name and no encoding can hold."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

T = TypeVar("T")


def sound(value: T) -> T:
    """The same, each half of a character replaced by the mark for what was lost. As a rule that is `value` itself."""
    if isinstance(value, str):
        return cast("T", _whole(value))
    if isinstance(value, tuple):
        before = cast("tuple[Any, ...]", value)
        after = tuple(sound(one) for one in before)
        same = all(one is other for one, other in zip(before, after, strict=True))
        return cast("T", before if same else after)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: after
            for one in fields(value)
            if (after := sound(before := getattr(value, one.name))) is not before
        }
        return cast("T", replace(value, **changed)) if changed else value
    return value


def _whole(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

"""Conditions of a watch: its subscribers are notified when the condition begins to hold, and not before.

    price below 50        rating >= 4.5        availability is InStock        below 100 (the first number of the part)
    contains TEXT         lacks TEXT           appears [TEXT]                 disappears [TEXT]

A fact is compared if the page states it. A page that is gone has disappeared.
"""

import operator
import re
from collections.abc import Callable
from typing import Any, Final

from tidings.web.documents.model import LLMPacket

_NUMBER: Final = re.compile(r"-?\d[\d,' \u00a0]*(?:\.\d+)?")
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(("below", "under", "<"), operator.lt),
    **dict.fromkeys(("above", "over", ">"), operator.gt),
    "<=": operator.le,
    ">=": operator.ge,
}
_SAID: Final = re.compile(r"(contains|lacks|appears|disappears)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_COMPARED: Final = re.compile(r"(?:([a-z][a-z ]*?)\s*)??(below|under|above|over|<=|>=|<|>|is)\s*(\S.*)", re.IGNORECASE)


class BadCondition(ValueError):
    """A condition is not understood. The message says what is."""


def check_condition(when: str) -> None:
    """Raises `BadCondition` if a condition is not understood."""
    said, compared = _SAID.fullmatch(when.strip()), _COMPARED.fullmatch(when.strip())
    understood = bool(said and (said[2] or said[1].lower() in ("appears", "disappears")))
    if compared and not said:
        understood = compared[2].lower() == "is" or bool(_NUMBER.fullmatch(compared[3].strip()))
    if len(when) > 300 or not understood:
        raise BadCondition(
            f"{when[:80]!r} is not understood as a condition. Write for example 'price below 50', 'contains TEXT', "
            "'lacks TEXT', 'appears' or 'disappears'"
        )


def holds(when: str, packet: LLMPacket) -> bool:
    """Returns whether a condition holds for a version of a page."""
    there = packet["status"] < 400
    content = packet["content"] if there else ""
    if said := _SAID.fullmatch(when.strip()):
        how, what = said[1].lower(), said[2].strip().strip("\"'").casefold()
        found = what in f"{packet['metadata'].get('title', '')}\n{content}".casefold() if there else False
        found = found if what else bool(content.strip())
        return found if how in ("contains", "appears") else not found
    compared = _COMPARED.fullmatch(when.strip())
    if compared is None or not there:
        return False
    name, how, what = (compared[1] or "").strip().lower(), compared[2].lower(), compared[3].strip()
    value = packet.get("facts", {}).get(name) if name and name not in ("number", "value") else content
    if value is None:
        return False
    if how == "is":
        return value.strip().casefold() == what.strip("\"'").casefold()
    numbers = [_number(each) for each in _NUMBER.findall(value)]
    return any(_ORDERS[how](each, _number(what)) for each in (numbers if name else numbers[:1]))


def _number(text: str) -> float:
    return float(re.sub(r"[^\d.-]", "", text))

"""YAML as most notes have it, read without a parser: names with a text, a number or a list of these.

Where every line is of that kind the result is what the parser would give, in a third of the time; a line that is not
wholly understood leaves the block to the parser.
"""

import re
import string
from typing import Any

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MOST_DIGITS = 300
_NUMERIC = frozenset("0123456789+-.")
_NEVER = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
"""Characters that YAML does not take as they are: line ends, the byte order mark, half characters."""


def _one_of(allowed: str) -> str:
    """An expression for these of the characters of ASCII, and for all beyond it that are text.

    By what it is not: of large ranges, the compiler looks at each character.
    """
    others = "".join(re.escape(character) for character in map(chr, range(0x20, 0x7F)) if character not in allowed)
    return f"[^{others}{_NEVER}]"


_LETTERS = string.ascii_letters + string.digits + "_"
_PRINTED = "".join(map(chr, range(0x20, 0x7F)))
_FIRST = _one_of(string.ascii_letters + "_")
_LETTER = _one_of(_LETTERS)
_WORD = _one_of(_LETTERS + "-")
_IN_PLAIN = _one_of(_LETTERS + " .,/+()'\"=;?!&*@$%<>|~^-")
_IN_ITEM = _one_of(_LETTERS + " ./+()-")
_IN_DOUBLE = _one_of(_PRINTED.replace('"', "").replace("\\", ""))
_IN_SINGLE = _one_of(_PRINTED.replace("'", ""))
_PLAIN = rf"(?:{_LETTER}|-(?=[0-9]))(?:{_IN_PLAIN}|:(?=[^ ]))*+"
_QUOTED = rf"\"{_IN_DOUBLE}*+\"|'{_IN_SINGLE}*+'"
_ITEM = rf"{_LETTER}{_IN_ITEM}*+|{_QUOTED}"
_LINE = re.compile(
    rf"(?:({_FIRST}{_WORD}{{0,40}}(?: {_WORD}{{1,20}}){{0,4}}):|( *)-)"
    rf"(?: +(?:({_PLAIN})|({_QUOTED}) *|\[ *((?:(?:{_ITEM}) *(?:, *(?:{_ITEM}) *)*)?)\] *))? *"
)
_ITEMS = re.compile(_ITEM)


def load_simple(text: str) -> dict[str, Any] | None:
    """The properties, or None if they are not simple."""
    result: dict[str, Any] = {}
    items: list[Any] | None = None
    indent: str | None = None
    name = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line:
            continue
        if (found := _LINE.fullmatch(line)) is None:
            return None
        key, dash, plain, quoted, listed = found.groups()
        value = _value(plain, quoted, listed)
        if key is not None:
            if key in result:
                return None
            name, result[key], indent = key, value, None
            items = [] if found.lastindex == 1 else None  # Items may follow where no value does.
        elif items is None or value is None or listed is not None or indent not in (None, dash):
            return None
        else:
            items.append(value)
            result[name], indent = items, dash
    return result


def _value(plain: str | None, quoted: str | None, listed: str | None) -> Any:
    if plain is not None:
        return scalar(plain.rstrip(" "))
    if quoted is not None:
        return quoted[1:-1]
    if listed is None:
        return None
    return [item[1:-1] if item[0] in "\"'" else scalar(item.rstrip(" ")) for item in _ITEMS.findall(listed)]


def scalar(text: str) -> Any:
    """What a plain text means."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if text[0] not in _NUMERIC or len(text) > _MOST_DIGITS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text

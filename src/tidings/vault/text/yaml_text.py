"""Values as YAML: in the simplest style that is read again as the same value."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tidings.vault.text.simple_yaml import scalar

_LETTER = "A-Za-z0-9_\xa1-\u1fff\u2070-\ud7ff\ue000-\ufdcf\uff01-\uffdc\U00010000-\U0001ffff"
_PLAIN = re.compile(rf"(?:[{_LETTER}./+(]|-(?=[{_LETTER}]))(?:[{_LETTER}/.,+()'\"=;?!&*@$%<>|~^\[\]{{}}\\` #:-])*")
_PLAIN_IN_FLOW = re.compile(rf"[{_LETTER}./+(](?:[{_LETTER}/.+()'\"=;&*@$%<>|~^ -])*")
_ENDS_PLAIN = re.compile(r": | #|[: ]\Z|\A\.\.\.")
_ESCAPED = re.compile('["\\\\\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def scalar_text(value: Any, quote: str | None = None, *, in_flow: bool = False) -> str:
    """A text, number, truth value or None; a text in these quotes, if they can hold it."""
    if not isinstance(value, str):
        return json.dumps(value)
    if quote == "'" and not _ESCAPED.search(value.replace('"', "").replace("\\", "")):
        return "'" + value.replace("'", "''") + "'"
    if quote is None and _is_plain(value, in_flow=in_flow):
        return value
    return '"' + _ESCAPED.sub(_escape, value) + '"'


def _is_plain(text: str, *, in_flow: bool) -> bool:
    pattern = _PLAIN_IN_FLOW if in_flow else _PLAIN
    return pattern.fullmatch(text) is not None and not _ENDS_PLAIN.search(text) and scalar(text) is text


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def flow_text(value: Any, quote: str | None = None, *, as_json: bool = False) -> str:
    """A value on one line: `[a, b]`, `{a: b}`."""
    if as_json:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{scalar_text(k, in_flow=True)}: {flow_text(v)}" for k, v in pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([flow_text(item, quote) for item in cast("list[Any]", value)]) + "]"
    return scalar_text(value, quote, in_flow=True)


def mapping_text(properties: Mapping[str, Any], indent: str, step: str = "  ") -> str:
    """Lines of `name: value`."""
    return "".join(
        f"{indent}{scalar_text(name)}:{after_colon(properties[name], indent, step)}\n" for name in properties
    )


def after_colon(value: Any, indent: str, step: str = "  ", quote: str | None = None) -> str:
    """What follows `name:`, without the last line end. Lists are indented by `step`."""
    if value is None:
        return ""
    if isinstance(value, list) and value:
        return "\n" + items_text(cast("list[Any]", value), indent + step)
    if isinstance(value, dict) and value:
        return "\n" + mapping_text(cast("dict[str, Any]", value), indent + "  ").removesuffix("\n")
    return " " + (flow_text(value) if isinstance(value, list | dict) else scalar_text(value, quote))


def items_text(values: Sequence[Any], indent: str, quote: str | None = None) -> str:
    """Lines of `- value`, without the last line end."""
    return "\n".join([f"{indent}- {item_text(value, quote)}" for value in values])


def item_text(value: Any, quote: str | None = None) -> str:
    """What follows `- `."""
    return flow_text(value) if isinstance(value, list | dict) else scalar_text(value, quote)

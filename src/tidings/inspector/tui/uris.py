"""Resource templates: the URI that values make of one, and whether a URI may be of one. RFC 6570, all its operators."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")


class _Way(NamedTuple):
    """How an operator writes its variables."""

    first: str
    between: str
    named: bool
    if_empty: str
    reserved: bool


_WAYS: Final = {
    "": _Way("", ",", False, "", False),
    "+": _Way("", ",", False, "", True),
    "#": _Way("#", ",", False, "", True),
    ".": _Way(".", ".", False, "", False),
    "/": _Way("/", "/", False, "", False),
    ";": _Way(";", ";", True, "", False),
    "?": _Way("?", "&", True, "=", False),
    "&": _Way("&", "&", True, "=", False),
}
_RESERVED: Final = ":/?#[]@!$&'()*+,;="


def expand(template: str, values: Mapping[str, Any]) -> str:
    """The URI of these values. A variable without one is left out, as the RFC says."""
    return _EXPRESSION.sub(lambda found: _expression(_WAYS[found[1]], found[2], values), template)


def _expression(way: _Way, variables: str, values: Mapping[str, Any]) -> str:
    written: list[str] = []
    for variable in variables.split(","):
        name, _, most = variable.strip().removesuffix("*").partition(":")
        value = values.get(name)
        if value is None or value in ("", []):
            continue
        several = cast("list[Any]", value) if isinstance(value, list) else [value]
        texts = [_quoted(str(each)[: int(most)] if most.isdigit() else str(each), way) for each in several]
        joiner = way.between if variable.strip().endswith("*") else ","
        if way.named:
            prefixed = [f"{name}{'=' + text if text else way.if_empty}" for text in texts]
            written.append(joiner.join(prefixed) if joiner == way.between else f"{name}={','.join(texts)}")
        else:
            written.append(joiner.join(texts))
    return way.first + way.between.join(written) if written else ""


def _quoted(text: str, way: _Way) -> str:
    return quote(text, safe=_RESERVED + "-._~%" if way.reserved else "-._~")


def matches(template: str, uri: str) -> bool:
    """Whether this URI may be one that the template makes. Of a template with many variables, only its beginning is
    compared: a server's pattern must not cost more than it is worth.
    """
    if len(_EXPRESSION.findall(template)) > 4 or len(uri) > 2000:
        return uri.startswith(template.partition("{")[0])
    return _pattern(template).fullmatch(uri) is not None


@cache
def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    at = 0
    for found in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[at : found.start()]))
        parts.append({"": "[^/?#]*", ".": "[^/?#]*", "+": ".*", "#": ".*"}.get(found[1], "[^#]*"))
        at = found.end()
    parts.append(re.escape(template[at:]))
    return re.compile("".join(parts))

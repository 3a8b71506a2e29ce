"""URI templates (RFC 6570)."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

_EXPRESSION: Final = re.compile(r"\{([+#./;?&|!@=,]?)([^{}]*)\}")
_VARIABLE: Final = re.compile(r"(?P<name>(?:\w|%[0-9A-Fa-f]{2}|\.)+)(?::(?P<prefix>\d{1,4})|(?P<explode>\*))?")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_MOST_EXPRESSIONS: Final = 4
_LONGEST_URI: Final = 2_000


class _Operator(NamedTuple):
    """The rules by which an operator writes its variables (RFC 6570, appendix A)."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""
    reserved: bool = False


_OPERATORS: Final = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, if_empty="="),
    "&": _Operator("&", "&", named=True, if_empty="="),
}


class Variable(NamedTuple):
    """A variable of a template, as it stands in its expression: `{?name:3}`, `{/name*}`."""

    name: str
    operator: str  # One of `+ # . / ; ? &`, or empty
    prefix: int | None  # Only so many characters of the value are used
    explode: bool  # Takes several values, each written for itself

    @property
    def optional(self) -> bool:
        """A URI is complete without this variable: it belongs to a query, a parameter or a fragment."""
        return self.operator in ("?", "&", ";", "#")


def variables(template: str) -> Iterator[Variable]:
    """Yields the variables of a template in order, also those that occur twice. Malformed ones are left out."""
    for expression in _EXPRESSION.finditer(template):
        for part in expression[2].split(","):
            if found := _VARIABLE.fullmatch(part.strip()):
                prefix = int(found["prefix"]) if found["prefix"] else None
                yield Variable(found["name"], expression[1], prefix, bool(found["explode"]))


def expand(template: str, values: Mapping[str, Any]) -> str:
    """Returns the URI of a template with these values: texts or lists. Variables without a value are left out."""

    def written(found: re.Match[str]) -> str:
        if (operator := _OPERATORS.get(found[1])) is None:
            return found[0]
        parts: list[str] = []
        safe = _RESERVED + "-._~%" if operator.reserved else "-._~"
        for variable in map(str.strip, found[2].split(",")):
            name, _, prefix = variable.removesuffix("*").partition(":")
            value = values.get(name)
            if value is None or value in ("", []):
                continue
            several = cast("list[Any]", value) if isinstance(value, list) else [value]
            texts = [quote(str(each)[: int(prefix)] if prefix.isdigit() else str(each), safe=safe) for each in several]
            exploded = variable.endswith("*") or operator.separator == ","
            if operator.named and exploded:
                texts = [f"{name}{'=' + text if text else operator.if_empty}" for text in texts]
            elif operator.named:
                texts = [f"{name}={','.join(texts)}"]
            parts.append((operator.separator if exploded else ",").join(texts))
        return operator.first + operator.separator.join(parts) if parts else ""

    return _EXPRESSION.sub(written, template)


def matches(template: str, uri: str) -> bool:
    """Returns whether the template may make this URI. Of very long or complex ones only the beginning is compared."""
    if len(_EXPRESSION.findall(template)) > _MOST_EXPRESSIONS or len(uri) > _LONGEST_URI:
        return uri.startswith(template.partition("{")[0])
    return _pattern(template).fullmatch(uri) is not None


@lru_cache(maxsize=1_000)
def _pattern(template: str) -> re.Pattern[str]:
    parts: list[str] = []
    at = 0
    for found in _EXPRESSION.finditer(template):
        parts.append(re.escape(template[at : found.start()]))
        parts.append({"": "[^/?#]*", ".": "[^/?#]*", "+": ".*", "#": ".*"}.get(found[1], "[^#]*"))
        at = found.end()
    parts.append(re.escape(template[at:]))
    return re.compile("".join(parts))

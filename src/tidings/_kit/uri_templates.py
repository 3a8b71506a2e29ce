"""URI templates (RFC 6570), and `UriPattern`, one way to name many URIs."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, cast
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
    return _EXPRESSION.sub(
        lambda found: _expanded(_OPERATORS[found[1]], found[2], values) if found[1] in _OPERATORS else found[0],
        template,
    )


def _expanded(operator: _Operator, names: str, values: Mapping[str, Any]) -> str:
    written: list[str] = []
    safe = _RESERVED + "-._~%" if operator.reserved else "-._~"
    for variable in map(str.strip, names.split(",")):
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
        written.append((operator.separator if exploded else ",").join(texts))
    return operator.first + operator.separator.join(written) if written else ""


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


class ParsedTemplate(Protocol):
    @property
    def variable_names(self) -> Sequence[str]: ...
    @property
    def query_variable_names(self) -> Collection[str]: ...
    def match(self, uri: str) -> dict[str, str | list[str]] | None: ...


class UriPattern:
    """Matches URIs by a URI, a prefix that ends in `*`, or a template such as `feed://{id}`.

    It matches subscriptions, too: the prefix `feed://*` matches the template `feed://{id}` with `id="*"`.

    `parse_template` parses a template, and raises `ValueError` if it is none. Give the parser that interprets the
    templates elsewhere, so that both agree about what matches. `check` raises if another text is no URI and no prefix.
    """

    def __init__(
        self, text: object, *, parse_template: Callable[[str], ParsedTemplate], check: Callable[[str], object]
    ) -> None:
        if not isinstance(text, str):
            raise TypeError(
                f"A pattern is a text (a URI, a prefix ending in '*', or a template such as 'note://{{id}}'), "
                f"not {type(text).__name__}"
            )
        self.text = text
        self._template: ParsedTemplate | None = None
        if "{" in text:  # No URI has one: an incomplete template is a mistake, not a URI that matches nothing.
            try:
                self._template = parse_template(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is not a URI template: {error}") from error
        else:
            check(text)

    @property
    def variables(self) -> list[str]:
        """The names that `match` returns values for."""
        return [] if self._template is None else list(self._template.variable_names)

    @property
    def optional(self) -> frozenset[str]:
        """The variables that a URI may leave out: those of its query."""
        return frozenset() if self._template is None else frozenset(self._template.query_variable_names)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Returns the values of the template's variables in `uri` (none for a URI or a prefix); None if it differs."""
        if self._template is not None:
            return self._template.match(uri)
        if uri == self.text or (self.text.endswith("*") and uri.startswith(self.text[:-1])):
            return {}
        return None

    def covers(self, subscription: str) -> bool:
        """Returns whether this matches everything that `subscription` wants: for a prefix, only a prefix can."""
        if subscription.endswith("*") and self._template is not None:
            return False
        return self.match(subscription) is not None

    def __repr__(self) -> str:
        return f"UriPattern({self.text!r})"

"""The forms of what has no schema: a prompt's arguments, and the variables of a resource template."""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

from tidings.inspector.schemas.fields import Field
from tidings.inspector.schemas.merging import as_schema
from tidings.inspector.schemas.objects import is_secret, may_be_long

_EXPRESSION: Final = re.compile(r"\{([+#./;?&|!@=,]?)([^{}]+)\}")
_VARIABLE: Final = re.compile(r"(?P<name>(?:\w|%[0-9A-Fa-f]{2}|\.)+)(?::(?P<most>\d{1,4})|(?P<several>\*))?")
_OPTIONAL: Final = frozenset("?&;#")
"""The operators before variables that a URI is whole without."""


def prompt_form(arguments: object) -> Field:
    """The form of a prompt, from the `arguments` that the server lists for it. Values are texts."""
    fields: dict[str, Field] = {}
    for each in cast("Sequence[Any]", arguments) if isinstance(arguments, list | tuple) else ():
        facts = as_schema(each)
        name = facts.get("name")
        if isinstance(name, str):
            fields[name] = Field(
                "multiline" if may_be_long(name, {}) else "text",
                name=name,
                title=_text(facts.get("title")),
                description=_text(facts.get("description")),
                required=facts.get("required") is True,
                secret=is_secret(name, {}),
            )
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def template_form(uri_template: str) -> Field:
    """The form of a resource template: its variables, as RFC 6570 has them. Those in the query may be left out."""
    fields: dict[str, Field] = {}
    for expression in _EXPRESSION.finditer(uri_template):
        for part in expression[2].split(","):
            variable = _VARIABLE.fullmatch(part.strip())
            if variable is None or variable["name"] in fields:
                continue
            most, hints = variable["most"], list[str]()
            if most:
                hints.append(f"only the first {most} characters are used")
            if expression[1] in ("+", "#"):
                hints.append("may have slashes")
            fields[variable["name"]] = Field(
                "text",
                name=variable["name"],
                required=expression[1] not in _OPTIONAL,
                hints=tuple(hints),
                notes=("The template takes several values here.",) if variable["several"] else (),
            )
    return Field("object", required=True, fields=tuple(fields.values()), closed=True)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""

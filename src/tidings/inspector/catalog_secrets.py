"""What of an entry is secret: how it is shown, how it is put back, and by which variables an export replaces it.

A text that is nothing but `${NAME}` names a secret without telling it, and is shown.
"""

import re
from collections.abc import Mapping
from typing import Final

from tidings.client.masking import MASK, looks_secret, shown_arguments

_NAMED_ONLY: Final = re.compile(r"(?:(?:bearer|basic|token)\s+)?(?:\$\{(?:env:|input:)?[\w.-]+\})+", re.IGNORECASE)
_PLAIN_HEADERS: Final = frozenset({"accept", "accept-language", "content-type", "user-agent", "mcp-protocol-version"})
_NOT_LETTERS: Final = re.compile(r"[^A-Za-z0-9]+")


def is_named(text: str) -> bool:
    """Whether a text is nothing but the names of variables."""
    return _NAMED_ONLY.fullmatch(text.strip()) is not None


def variable_is_secret(name: str, value: str) -> bool:
    """Whether the value of an environment variable should not be seen."""
    if not value or is_named(value):
        return False
    return looks_secret(name) or bool(shown_arguments([value])[1])


def header_is_secret(name: str, value: str) -> bool:
    """Whether the value of a header should not be seen: any may tell the server who asks."""
    return bool(value) and not is_named(value) and name.lower() not in _PLAIN_HEADERS


def shown_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be shown."""
    return {name: MASK if variable_is_secret(name, value) else value for name, value in env.items()}


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be shown."""
    return {name: MASK if header_is_secret(name, value) else value for name, value in headers.items()}


def variable_name(*parts: str) -> str:
    """The name of a variable, made of several words."""
    name = "_".join(_NOT_LETTERS.sub("_", part).strip("_").upper() for part in parts if part)
    return f"_{name}" if name[:1].isdigit() else name or "SECRET"


def put_back(edited: Mapping[str, str], original: Mapping[str, str]) -> dict[str, str]:
    """What was edited as it was shown, with the secrets that were left as they are."""
    return {name: original[name] if value == MASK and name in original else value for name, value in edited.items()}

"""The servers of a catalog for other programs, as `mcpServers` JSON.

An export is made to be passed on, so by default it holds no secret: each is replaced by a variable, `${NAME}`, which
Claude Code and Tidings fill in from the environment; `variables` says what each stands for. Claude Desktop does not
fill in variables: for it, and for a backup, export with `secrets=True`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tidings.client.masking import SHORTEST, shown_arguments, url_secrets
from tidings.inspector.catalog_entry import ServerEntry
from tidings.inspector.catalog_secrets import header_is_secret, variable_is_secret, variable_name


@dataclass(frozen=True)
class Export:
    """A document to write as JSON, and what has to be set for it to work."""

    document: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Each variable that stands for a secret, and which that is: "the header Authorization of notes"."""


def exported(entries: Iterable[ServerEntry], *, secrets: bool = False) -> Export:
    """The servers as other programs read them."""
    export = Export({"mcpServers": {}})
    held: dict[str, str] = {}
    for entry in entries:
        raw = entry.raw() if secrets else _Replacer(entry, export.variables, held).raw()
        export.document["mcpServers"][entry.name] = raw
    return export


class _Replacer:
    """Replaces the secrets of one entry."""

    def __init__(self, entry: ServerEntry, variables: dict[str, str], held: dict[str, str]) -> None:
        self._entry = entry
        self._held = held
        self._variables = variables

    def raw(self) -> dict[str, Any]:
        entry, raw = self._entry, self._entry.raw()
        env = {
            name: self._named(variable_name(name), f"the variable {name}", value)
            if variable_is_secret(name, value)
            else value
            for name, value in entry.env.items()
        }
        headers = {
            name: self._header(name, value) if header_is_secret(name, value) else value
            for name, value in entry.headers.items()
        }
        found = shown_arguments(entry.args)[1]
        args = [self._without(text, found, "an argument") for text in entry.args]
        replaced: dict[str, Any] = {"env": env, "headers": headers, "args": args}
        if entry.url is not None:
            replaced["url"] = self._without(entry.url, url_secrets(entry.url), "a part of the URL")
        # What is not known may be a secret; another program's own settings are of no use to a third.
        kept = ("type", "transport", "disabled", "tidings", "command", "args", "url", "env", "headers", "cwd")
        return {key: replaced.get(key, value) for key, value in raw.items() if key in kept}

    def _header(self, name: str, value: str) -> str:
        scheme, space, _ = value.partition(" ")
        variable = self._named(variable_name(self._entry.name, name), f"the header {name}", value)
        return f"{scheme} {variable}" if space and scheme.lower() in ("bearer", "basic", "token") else variable

    def _without(self, text: str, secrets: set[str], what: str) -> str:
        # The longest first: one may be a part of another.
        for secret in sorted((each for each in secrets if each), key=len, reverse=True):
            if (secret in text and len(secret) >= SHORTEST) or secret == text:
                text = text.replace(secret, self._named(variable_name(self._entry.name, "SECRET"), what, secret))
        return text

    def _named(self, name: str, what: str, secret: str) -> str:
        """The placeholder for a secret. A name that stands for another already gets a number."""
        free, number = name, 1
        while self._held.setdefault(free, secret) != secret:
            number += 1
            free = f"{name}_{number}"
        self._variables.setdefault(free, f"{what} of {self._entry.name}")
        return f"${{{free}}}"

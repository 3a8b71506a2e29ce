"""Secrets in addresses, commands and texts: finds and masks them. Imports nothing of the SDK.

When in doubt, a text counts as a secret: one that is masked for nothing costs a look at a configuration file, one that
is shown stays in a log forever.
"""

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote, unquote

MASK: Final = "***"
SHORTEST: Final = 6  # Shorter texts are not masked: they occur in ordinary words.
_WORDS: Final = r"(?:token|key|secret|passw|pwd|auth|credential|bearer)"
_SECRET_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_NAMED: Final = re.compile(  # --api-key=x, API_KEY=x, Authorization: Bearer x, {"apiKey": "x"}
    rf'(?P<before>(?<![\w.-])(?<!://)(?=[\w.-]*?{_WORDS})[\w.-]++"?\s*+[=:]\s*+)'
    r'(?:(?P<quote>")(?P<quoted>(?:[^"\\]|\\.)*+)|(?P<rest>.+))',
    re.IGNORECASE | re.DOTALL,
)
_SCHEME: Final = re.compile(r"^(?:bearer|basic|token)\s+", re.IGNORECASE)
_URL: Final = re.compile(r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++://)(?P<rest>\S*)")
_BAD_PORT: Final = re.compile(r"[^\[]*:(?!\d*$)")
_RANDOM: Final = re.compile(r"(?=[A-Za-z]*\d[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{12,}")


def looks_secret(name: str) -> bool:
    """Returns whether the value of an option, a variable or a header of this name is probably a secret."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str, secrets: Iterable[str]) -> str:
    """Returns `text` with every occurrence of `secrets` masked."""
    secrets = [secret for secret in secrets if secret]
    while found := sorted(
        (place.start(), place.start() + len(secret))
        for secret in secrets
        if secret in text
        for place in re.finditer(f"(?={re.escape(secret)})", text)
    ):
        pieces: list[str] = []
        shown_to = 0
        end = -1
        for start, stop in found:
            if start > end:  # Neither overlaps the one before nor touches it.
                pieces += (text[shown_to:start], MASK)
            end = shown_to = max(end, stop)
        # Repeated until there is none: the rest may form one together with the mask.
        text = "".join(pieces) + text[shown_to:]
    return text


def forms(values: Iterable[str]) -> frozenset[str]:
    """Returns the forms in which values may occur: whole, one of their lines, escaped for a URL, JSON or Python."""
    whole = {text for value in values for text in (value, value.strip(), _SCHEME.sub("", value.strip()))}
    plain = whole.union(*(text.splitlines() for text in whole))
    written = {
        form
        for text in plain
        for form in (text, unquote(text), quote(text, safe="", errors="replace"), json.dumps(text)[1:-1])
    }
    return frozenset(form for text in written for form in (text, repr(text)[1:-1]) if len(form) >= SHORTEST)


def shown_url(url: str) -> str:
    """Returns `url` without user, password and query, and without the parts of its path that look random."""
    return _URL.sub(lambda found: found["scheme"] + _split(found["rest"])[0], url)


def url_secrets(text: str) -> set[str]:
    """Returns the secrets in all URLs of `text`."""
    return {secret for found in _URL.finditer(text) for secret in _split(found["rest"])[1]}


def _split(rest: str) -> tuple[str, set[str]]:
    """Returns the part that may be shown, and the secrets, of what follows `scheme://`."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" not in authority and _BAD_PORT.match(authority):
        # A password with an unquoted slash makes the URL invalid, but is still a password.
        authority = rest
    userinfo, _, place = authority.rpartition("@")
    place, *parameters = re.split(r"[?&#;]", place + rest[len(authority) :])
    secrets = {parameter.partition("=")[2] or parameter for parameter in parameters}
    if userinfo:
        user, _, password = userinfo.partition(":")
        sent = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors="replace"))
        # A user name is secret only if it takes the place of the password.
        secrets |= {userinfo, password or user, sent.decode()}
    parts = place.split("/")
    # Some servers have their key in the path. Nobody writes such a part by hand.
    random = {part for part in parts[1:] if len(part) >= 20 and _RANDOM.search(part)}
    return "/".join(MASK if part in random else part for part in parts), secrets | random


def shown_arguments(arguments: Sequence[str]) -> tuple[list[str], set[str]]:
    """Returns the arguments of a command as they may be shown, and the secrets in them."""
    shown: list[str] = []
    secrets: set[str] = set()
    secret_follows = False
    for argument in arguments:
        if secret_follows and not argument.startswith("--"):
            secrets.add(argument)
            shown.append(MASK)
            secret_follows = False
            continue
        secret_follows = argument.startswith("-") and "=" not in argument and looks_secret(argument)
        secrets |= url_secrets(argument)
        secrets.update(found["quoted"] or found["rest"] or "" for found in _NAMED.finditer(argument))
        shown.append(_NAMED.sub(rf"\g<before>\g<quote>{MASK}", shown_url(argument)))
    return shown, secrets

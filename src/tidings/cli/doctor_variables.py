"""The doctor on the environment: variables of Tidings that are set, and those that nobody reads."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from tidings.cli.doctor_checks import Finding, Place
from tidings.cli.logs import LEVELS
from tidings.web.setting import BadSetting
from tidings.web.settings import SETTINGS

TOKENS: Final = {
    "TIDINGS_TOKEN": "what clients of your servers have to send",
    "TIDINGS_BEARER_TOKEN": "what one-shot commands send to a server at a URL",
}
"""Secrets: that they are set is told, and nothing of them."""
OTHERS: Final = {
    "TIDINGS_URI": "`tidings watch --exec` sets it for what it runs",
    "TIDINGS_WEB_PAGES": "where the benchmark of the web server has its pages from",
}


_YES: Final = ("1", "true", "t", "yes", "y", "on")
_NO: Final = ("0", "false", "f", "no", "n", "off")
LOG: Final = {
    "TIDINGS_LOG_LEVEL": ("what `--log-level` would be", LEVELS),
    "TIDINGS_LOG_JSON": ("whether `--log-json` is set", (*_YES, *_NO)),
}
"""What each is for, and the values that it may have."""


def variables(place: Place) -> Iterator[Finding]:
    """Each variable that is named as if it were ours."""
    settings = {setting.variable: setting for setting in SETTINGS}
    known = [*TOKENS, *LOG, *OTHERS, *settings]
    ours = [name for name in sorted(place.environ) if name.upper().startswith("TIDINGS_")]
    if not ours:
        yield Finding("variables", "ok", "none of Tidings is set.")
    for name in ours:
        value = place.environ[name]
        if name in TOKENS:
            yield _token(name, value)
        elif name in LOG:
            yield _log(name, value)
        elif name in OTHERS:
            yield Finding(name, "ok", f"set; {OTHERS[name]}.")
        elif name in settings:
            setting = settings[name]
            try:
                for each in value.split(",") if setting.many else [value]:
                    setting.parse(each)
            except BadSetting as error:
                yield Finding(name, "wrong", f"{error}", f"Correct it, or: unset {name}")
            else:
                yield Finding(name, "ok", f"{value!r}. {setting.help}")
        else:
            near = get_close_matches(name.upper(), known, n=1)
            cure = f"Did you mean {near[0]}?" if near else f"unset {name}"
            yield Finding(name, "wrong", "nobody reads a variable of this name.", cure)


def _log(name: str, value: str) -> Finding:
    use, values = LOG[name]
    if not value or value.lower() in values:
        return Finding(name, "ok", f"{value!r}; it is {use}.")
    words = f"{value!r} is none of {', '.join(values)}; it is {use}. Commands that serve refuse to start."
    return Finding(name, "wrong", words, f"Correct it, or: unset {name}")


def _token(name: str, value: str) -> Finding:
    use = TOKENS[name]
    if not value:
        return Finding(name, "look", f"set, and empty; it is {use}.", f"Give it a value, or: unset {name}")
    if not (value.isascii() and value.isprintable()) or " " in value:
        words = "has characters that cannot be sent: a token consists of visible ASCII characters without spaces."
        return Finding(name, "wrong", words, "Often it is a line's end that was copied with it: set it anew.")
    return Finding(name, "ok", f"set ({len(value)} characters, not shown); it is {use}.")

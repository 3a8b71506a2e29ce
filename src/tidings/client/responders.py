"""Answers without a person: from a script, or a fixed list of roots.

A script is a list of rules in YAML or JSON, tried in order: docs/client.md has the format. The first rule that fits
answers; if none fits, the person is asked. A script with a mistake is refused when it is loaded, with the file, the
rule and what to do.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

from mcp_types import ElicitResult, Root

from tidings._kit.bounded_json import as_dict
from tidings._kit.lazy import install_command
from tidings.client.pending import ASK, Kind, PendingRequest, Responder, answer_to, refusal

_ANSWERS: Final[dict[Kind, tuple[str, ...]]] = {
    "elicitation": ("accept", "decline", "cancel", "reject", "ask"),
    "sampling": ("reply", "reject", "ask"),
    "roots": ("reject", "ask"),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the questions that it fits, and its answer."""

    kind: Kind
    pattern: str
    answer: Any
    server: str
    url: str | None
    times: int | None

    def fits(self, request: PendingRequest) -> bool:
        if self.url is None:  # A rule accepts a URL only if it names it.
            fits_url = request.url is None or not isinstance(self.answer, dict)
        else:
            fits_url = request.url is not None and fnmatchcase(request.url, self.url)
        names = (request.message, self.pattern), (request.server, self.server)
        fits_names = all(fnmatchcase(text.casefold(), pattern.casefold()) for text, pattern in names)
        return request.kind == self.kind and fits_names and fits_url


def _rule(rule: Mapping[str, Any], where: str) -> Rule:
    kinds: list[Kind] = [kind for kind in _ANSWERS if kind in rule]
    if len(kinds) != 1:
        raise ValueError(f"{where} must name the kind of question. Use one of the keys {', '.join(_ANSWERS)}.")
    kind = kinds[0]
    known = (kind, *_ANSWERS[kind], "server", "times", *(("url",) if kind == "elicitation" else ()))
    if unknown := [key for key in rule if key not in known]:
        raise ValueError(f"{where} has {unknown[0]!r}, which no rule for {kind} has. It may have: {', '.join(known)}.")
    listed = kind == "roots" and rule["roots"] is not None
    answers = [key for key in _ANSWERS[kind] if key in rule]
    if len(answers) + listed != 1:
        choices = ", ".join(_ANSWERS[kind]) + (", or a list of roots" if kind == "roots" else "")
        raise ValueError(f"{where} must have exactly one answer. Choose from: {choices}.")
    if listed:
        try:
            answer: object = answer_to(None, rule["roots"])
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    else:
        answer = _answer(answers[0], rule[answers[0]], where)
    url = _pattern(rule, "url", where) if "url" in rule else None
    if url is not None and isinstance(answer, dict) and answer:
        raise ValueError(f"{where} accepts a URL, which has no fields to fill in. Write just 'accept:'.")
    times = rule.get("times")
    if "times" in rule and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise ValueError(f"{where} needs a whole number of at least 1 for 'times'. Leave it out for no limit.")
    return Rule(
        kind,
        pattern="*" if kind == "roots" else _pattern(rule, kind, where),
        answer=answer,
        server=_pattern(rule, "server", where) if "server" in rule else "*",
        url=url,
        times=times,
    )


def _answer(key: str, value: object, where: str) -> object:
    match key, value:
        case "accept", None | True:
            return {}
        case "accept", Mapping():
            return _content(cast("Mapping[Any, Any]", value), where)
        case "reply", str():
            return value
        case "reject", str() | None | True:
            return refusal(value if isinstance(value, str) else "A script refuses this")
        case "decline" | "cancel", None | True:
            return ElicitResult(action="decline" if key == "decline" else "cancel")
        case "ask", None | True:
            return ASK
        case _:
            raise ValueError(f"{where} has an invalid value for {key!r}. {_CURES.get(key, f'Write just: {key}:')}")


_CURES: Final = {
    "accept": "Write the fields and their values, accept: {name: Ada}, or just: accept:",
    "reply": "Write a string, in quotes.",
    "reject": "Write the reason as a string, in quotes.",
}


def _content(content: Mapping[Any, Any], where: str) -> dict[str, Any]:
    for name, value in content.items():
        parts: list[Any] = cast("list[Any]", value) if isinstance(value, list) else []
        plain = value is None or isinstance(value, str | int | float | list)
        if not isinstance(name, str) or not plain or not all(isinstance(part, str) for part in parts):
            raise ValueError(
                f"{where} accepts with {name!r}, which is not a string, number, true, false or list of strings. Names, "
                "dates and the like need quotes."
            )
    return dict(content)


def _pattern(rule: Mapping[str, Any], key: str, where: str) -> str:
    value = rule[key]
    if not isinstance(value, str) or not value:
        raise ValueError(f'{where} must have a pattern for {key!r}, in quotes. "*" fits everything.')
    return value


def responder_for(answer: Responder | str | Path | None) -> Responder | None:
    """Returns the responder for `answer=` of `tidings.connect`. Raises `ValueError`."""
    if answer is None or callable(answer):
        return answer
    if answer == "ask":
        return lambda _: ASK
    if isinstance(answer, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        return script_responder(answer)
    raise ValueError(f"answer is 'ask', a function or the path of a script, not {type(answer).__name__}")


def roots_responder(roots: Iterable[str | os.PathLike[str] | Root]) -> Responder:
    """Returns a responder for these roots, which leaves other questions to the person. Raises `ValueError`."""
    answer = answer_to(None, roots if isinstance(roots, str) else list(roots))
    return lambda request: answer if request.kind == "roots" else ASK


def script_responder(path: str | os.PathLike[str]) -> Responder:
    """Returns a responder that follows the script at `path`. Raises `ValueError` if there is a mistake in it."""
    file = Path(path)
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"The script {file} is not in UTF-8: save it in that encoding.") from None
    except OSError as error:
        raise ValueError(f"The script {file} cannot be read ({error.strerror}): check the path.") from None
    if file.suffix.lower() == ".json":
        try:
            return rules_responder(json.loads(text), f"The script {file}")
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"The script {file} is not JSON: {error}. Correct it there.") from None
    try:
        from ruamel.yaml import YAML  # noqa: PLC0415 - an extra that not everyone has
        from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - see above
    except ImportError:
        cure = f"install the YAML parser: {install_command('inspector')}. Or write the script as .json."
        raise ValueError(f"To read {file}, {cure}") from None
    parser: Any = YAML(typ="safe", pure=True)
    try:
        rules = parser.load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"The script {file} is not YAML. Patterns need quotes. The parser says: {error}") from None
    return rules_responder(rules, f"The script {file}")


def rules_responder(listed: object, name: str) -> Responder:
    """Returns a responder that follows these rules. Raises `ValueError` if there is a mistake in them."""
    if not isinstance(listed, list):
        raise ValueError(f"{name} must be a list of rules, such as: - roots: [~/notes]")  # noqa: TRY004
    rules = [_rule(as_dict(each), f"{name}, rule {place}") for place, each in enumerate(cast("list[Any]", listed), 1)]
    used = [0] * len(rules)

    def answer(request: PendingRequest) -> Any:
        for number, rule in enumerate(rules):
            if rule.fits(request) and (rule.times is None or used[number] < rule.times):
                used[number] += 1
                return rule.answer
        return ASK

    return answer

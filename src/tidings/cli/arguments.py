"""The arguments of a tool, as they were typed: KEY=VALUE by its schema, or one JSON object."""

import json
import sys
from typing import Any, cast

import click

from tidings.cli.exits import Failed


def document_of(pairs: tuple[str, ...], document: str | None) -> dict[str, Any] | None:
    """The arguments, if they were given as one JSON object."""
    if pairs == ("-",):
        if sys.stdin.isatty():
            click.echo("The arguments as a JSON object, then Ctrl-D:", err=True)
        pairs, document = (), sys.stdin.read()
    if document is None:
        return None
    if pairs:
        raise Failed("Give the arguments either as KEY=VALUE or as JSON, not both.")
    try:
        given = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise Failed(f"The arguments are not JSON: {error}. Put the whole object in single quotes.") from None
    if not isinstance(given, dict):
        raise Failed(f'The arguments must be a JSON object, as in \'{{"city": "Oslo"}}\', not {type(given).__name__}.')
    return cast("dict[str, Any]", given)


def arguments_for(
    tool: str, schema: Any, pairs: tuple[str, ...], given: dict[str, Any] | None, *, checked: bool = True
) -> dict[str, Any]:
    """The arguments, as the schema wants them.

    Raises:
        Failed: They break it: at which place, and what was expected.
    """
    from tidings.inspector.schemas import check, parse_pairs

    if given is None:
        filled = parse_pairs(schema, pairs)
        if filled.problems:
            raise _broken(tool, [problem.message for problem in filled.problems])
        given = filled.value or {}
    if checked:
        problems = [problem for problem in check(schema, given) if problem.fault == "value"]
        if problems:
            raise _broken(tool, [problem.message for problem in problems])
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Failed(
            "The arguments have bytes in them that are no text: write them in UTF-8.", code="bad-arguments"
        ) from None
    return given or {}


def _broken(tool: str, problems: list[str]) -> Failed:
    more = "" if len(problems) <= 5 else f"\n  … and {len(problems) - 5} more"
    listing = "".join(f"\n  {problem}" for problem in problems[:5])
    return Failed(
        f"These are no arguments for {tool!r}:{listing}{more}\n"
        f"`tidings list TARGET tools {tool}` shows its schema; --no-check sends them as they are.",
        code="bad-arguments",
        data={"problems": problems},
    )

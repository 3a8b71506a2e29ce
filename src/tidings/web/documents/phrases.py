r"""The table of signs of instructions to a model, in several languages: read from `phrases.json`.

A sign is searched for only where one of its stems occurs, so that long texts cost little. One sign alone rarely proves
anything: ordinary writing says "ignore the previous step" and "and then reply". Signs that stand together add up, and
`injection` reports them from a sum on. They are matched in lower case, in a text without invisible characters.

In the file, `{{NAME}}` stands for a macro, and `\w*` for a bounded rest of a word. Letters and gaps have no character
in common, and both are bounded, so that there is one way to match, or none. An `override` is "ignore" + "earlier" +
"instructions", the last two in any order. A `tag` is markup of a chat, which means nothing in code.
"""

import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidings._kit.text import expanded

OVERRIDE: Final = "tells a model to drop its instructions"

_DATA: Final[dict[str, Any]] = json.loads(Path(__file__).with_name("phrases.json").read_text("utf-8"))
_OVERRIDE: Final = (
    "(?:VERBS){{GAP}}{{WORD}}{0,4}?"
    "(?:(?:EARLIER){{GAP}}{{WORD}}{0,2}?(?:NOUNS)|(?:NOUNS){{GAP}}{{WORD}}{0,3}?(?:EARLIER))(?![^\\W_])"
)


class Sign(NamedTuple):
    """A phrase that instructions to models use."""

    reason: str
    stems: tuple[str, ...]  # It begins with one of these.
    pattern: re.Pattern[str]
    weight: int
    tag: bool = False  # True if it is markup of a chat.


def _sign(row: dict[str, Any]) -> Sign:
    pattern: str = row.get("pattern", _OVERRIDE)
    for part, words in row.get("override", {}).items():
        pattern = pattern.replace(part.upper(), words)
    pattern = expanded(pattern, _DATA["macros"]).replace(r"\w*", r"[^\W_]{0,12}")
    return Sign(row["reason"], tuple(row["stems"]), re.compile(pattern), row["weight"], row.get("tag", False))


SIGNS: Final = tuple(map(_sign, _DATA["signs"]))
STRONG: Final = re.compile(_DATA["strong"])  # Words that make an override certain: all of them, yours, the prompt.
ABOUT: Final = tuple[str, ...](_DATA["about"])  # A text with these words is about models: what it quotes is an example.

"""JSON as people write it by hand: with comments, and commas before a closing bracket.

Both are replaced by spaces, so that a mistake keeps its line and column.
"""

import json
import re
from typing import Any, Final

_PIECE: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*+[\]}])', re.DOTALL
)
_NOT_LINE_ENDS: Final = re.compile(r"[^\n]")


class NotJson(ValueError):
    """A text that is not JSON. Says where and why."""


def parse(text: str) -> tuple[Any, bool]:
    """The value, and whether it is plain JSON: no comments, no commas too many.

    Raises:
        NotJson: It is none.
    """
    bare = _PIECE.sub(lambda piece: piece[0] if piece[0].startswith('"') else _NOT_LINE_ENDS.sub(" ", piece[0]), text)
    try:
        return json.loads(bare), bare == text
    except json.JSONDecodeError as error:
        raise NotJson(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError):
        raise NotJson("it is far too deep, or has a number beyond all bounds") from None

"""Regular expressions from outside, made safe to compile and to run. The only place that imports `regex`.

Always give the methods of a pattern `timeout=`. It does not cover compiling, in which the engine copies what a count
repeats, so a pattern is checked before. ECMAScript's syntax is translated, and the engine's extensions are refused.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import regex

Pattern = regex.Pattern[str]
Syntax = Literal["ecmascript", "python"]

LONGEST: Final = 1_000  # Characters of a pattern, unless the caller says otherwise
MOST_REPEATED: Final = 5_000
"""Characters of a pattern with its counted repetitions written out, unless the caller says otherwise."""

_DEEPEST: Final = 50
_TOO_LONG: Final = "it has more than {:,} characters: use shorter ones"
_REPEATS: Final = (
    "it repeats too often: its repetitions amount to more than {:,} characters. Keep counts such as {{1,100}} small, "
    "or use + or *"
)
_BETWEEN: Final = "\0"  # Stands for anything that separates words: `\b`, `\s`

_PIECE: Final = re.compile(
    r"""\\[pP]\{\w+(?:=\w+)?\} | \\u\{(?P<code>[0-9A-Fa-f]{1,6})\} | \\k<(?P<named>\w+)> | \\(?P<escaped>.)
      | (?P<any>\[\^\]) | (?P<none>\[\])
      | (?P<set>\[(?:\\.|[^\]\\])*\])
      | (?P<open>\((?:\?(?:[ims-]+[:)]|:|=|!|<=|<!|<\w+>))?)
      | (?P<count>\{(?P<least>\d*)(?P<upto>,(?P<most>\d*))?\}[?+]?) | (?P<repeat>[*+?][?+]?)
      | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


class DeadlineExceeded(Exception):
    """A search or a check took longer than it may, and was given up."""


class BadPattern(ValueError):
    """A regular expression cannot be run. The message says why, in words that follow the pattern: "it has …"."""


@dataclass(frozen=True, slots=True)
class TranslatedPattern:
    """A pattern in the engine's syntax, and what is known of every match."""

    text: str
    literal: str
    """The longest text that occurs in every match, perhaps in another case; empty if it has less than 3 characters."""


def found_in(pattern: str, text: str, *, seconds: float = 0.05) -> bool | None:
    """Returns whether an ECMAScript pattern occurs in a text; None if it is not a pattern, or takes too long."""
    try:
        return compiled(pattern).search(text, timeout=seconds) is not None
    except (BadPattern, TimeoutError):
        return None


def users_pattern(pattern: str) -> Pattern:
    """Compiles a pattern that a user wrote in Python's syntax; `^` and `$` match at each line. Raises `BadPattern`."""
    return compiled(pattern, syntax="python", multiline=True, longest=500, most_repeated=2_000)


@lru_cache(maxsize=512)
def compiled(
    pattern: str,
    *,
    syntax: Syntax = "ecmascript",
    ignore_case: bool = False,
    multiline: bool = False,
    dotall: bool = False,
    longest: int = LONGEST,
    most_repeated: int = MOST_REPEATED,
) -> Pattern:
    """Compiles a pattern, to be run with `timeout=`. Raises `BadPattern` if it is none, too long or too repetitive."""
    if syntax == "ecmascript":
        text = translated(pattern, longest=longest, most_repeated=most_repeated).text
    else:
        text = _checked(pattern, longest, most_repeated)
    flags = regex.VERSION0  # The mode without sets of sets.
    flags |= regex.MULTILINE if multiline else 0
    flags |= regex.DOTALL if dotall else 0
    # The engine is needlessly slow if case is ignored in a pattern without letters.
    if ignore_case and any(map(str.isalpha, re.sub(r"\\[dDwWsSbB]", "", pattern))):
        flags |= regex.IGNORECASE
    try:
        return regex.compile(text, flags)
    except regex.error as error:
        raise BadPattern(f"it is not a regular expression: {error}") from error
    except (RecursionError, OverflowError, KeyError, ValueError) as error:
        raise BadPattern("it is too deeply nested, or not a regular expression") from error


@lru_cache(maxsize=512)
def translated(pattern: str, *, longest: int = LONGEST, most_repeated: int = MOST_REPEATED) -> TranslatedPattern:
    """Translates a pattern of ECMAScript's syntax into the engine's. Raises `BadPattern` if it is not safe to run."""
    if len(pattern) > longest:
        raise BadPattern(_TOO_LONG.format(longest))
    walk = _Walk(most_repeated)
    for piece in _PIECE.finditer(pattern):
        walk.step(piece)
    return TranslatedPattern("".join(walk.text), "" if walk.alternatives else walk.literal())


def _checked(pattern: str, longest: int, most_repeated: int) -> str:
    if len(pattern) > longest:
        raise BadPattern(_TOO_LONG.format(longest))
    try:
        re.compile(pattern)  # It has no recursion, and expands nothing.
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"it is not a regular expression: {error}") from error
    # Counts within counts multiply. Those that follow each other would only add up, but are not told apart here.
    copies = 1
    for least, most in re.findall(r"\{(\d*)(?:,(\d*))?\}", pattern):
        copies *= max(1, int(least or 0), int(most or 0))
    if copies > most_repeated:
        raise BadPattern(_REPEATS.format(most_repeated))
    return pattern


class _Walk:
    """Reads a pattern once, piece by piece: translates and measures it, and collects the texts that are certain."""

    def __init__(self, most_repeated: int) -> None:
        self.text: list[str] = []
        self.alternatives = False
        self._most_repeated = most_repeated
        self._sizes = [0]  # Characters in each open group, with repetitions written out
        self._last = 0  # The size of the piece that a repetition repeats
        self._runs: list[list[str]] = [[]]  # Literal characters that follow each other directly, outside of groups

    def step(self, piece: "re.Match[str]") -> None:
        if piece["count"] and (piece["least"] or piece["most"]):
            self._repeat(int(piece["least"] or 0), int(piece["most"] or piece["least"] or 0))
        elif piece["repeat"]:
            self._repeat(1 if piece[0][0] == "+" else 0, 1)
        elif piece["open"]:
            self._open(piece)
        elif piece[0] != ")":
            self._atom(piece)
        elif len(self._sizes) > 1:
            self._last = max(1, self._sizes.pop())
            self._grow(self._last)
            self._runs.append([])
        self.text.append(_in_engines_syntax(piece))

    def literal(self) -> str:
        longest = max((part for run in self._runs for part in "".join(run).split(_BETWEEN)), key=len)
        return longest if len(longest) > 2 else ""

    def _atom(self, piece: "re.Match[str]") -> None:
        self._last = 1
        self._grow(1)
        if len(self._sizes) > 1:
            return
        escaped: str | None = piece["escaped"]
        other: str | None = piece["other"]
        self.alternatives = self.alternatives or other == "|"
        if escaped is not None and escaped in "bs":
            self._runs[-1].append(_BETWEEN)
        elif escaped is not None and escaped.isascii() and not escaped.isalnum():
            self._runs[-1].append(escaped)
        elif other is not None and other.isascii() and other not in ".^$|":
            self._runs[-1].append(other)
        else:
            self._runs.append([])

    def _repeat(self, least: int, most: int) -> None:
        self._grow(self._last * max(0, most - 1))
        if len(self._sizes) == 1:
            # A repeated character may be missing, or occur more than once: only a separator remains one.
            repeated = self._runs[-1].pop() if self._runs[-1] else None
            kept = [repeated] if repeated is not None and least > 0 and not repeated.isalnum() else []
            self._runs[-1] += kept
            self._runs.append(list(kept))

    def _open(self, piece: "re.Match[str]") -> None:
        after = piece.string[piece.end() : piece.end() + 1]
        if piece[0] == "(" and after in {"?", "*"}:
            raise BadPattern(f"({after} is followed by nothing that JavaScript knows")
        if piece[0].endswith(")"):  # `(?i)` opens nothing.
            return
        self._sizes.append(0)
        if len(self._sizes) > _DEEPEST:
            raise BadPattern("it is too deeply nested")
        self._runs.append([])

    def _grow(self, size: int) -> None:
        self._sizes[-1] += size
        if self._sizes[-1] > self._most_repeated:
            raise BadPattern(_REPEATS.format(self._most_repeated))


def _in_engines_syntax(piece: "re.Match[str]") -> str:
    text = piece[0]
    if piece["code"]:
        number = int(piece["code"], 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise BadPattern(f"there is no character {piece['code']}")
        text = regex.escape(chr(number))
    elif piece["named"]:
        text = f"(?P={piece['named']})"
    elif piece["escaped"] and piece["escaped"] in "gGKLmMNRX":
        raise BadPattern(f"{text} is not known in JavaScript's regular expressions")
    elif piece["any"]:
        text = r"[\s\S]"
    elif piece["none"]:
        text = "(?!)"
    elif piece["set"]:  # `[:alpha:]` would be a class, and `[[` a set in a set.
        inner = re.sub(r"\\.|\[", lambda found: r"\[" if found[0] == "[" else found[0], text[1:], flags=re.DOTALL)
        text = "[" + inner
    elif text == "{":  # The engine would allow for misspellings: `{e<=3}`.
        text = r"\{"
    return text

r"""Regular expressions as JavaScript writes them, made safe to run on what anybody asks for.

The engine expands counted repetitions when it compiles (`a{1000000000}` would fill the memory before any time limit is
looked at), and its own extensions can recurse. So a pattern is walked once before it is compiled: what JavaScript does
not have is refused, repetitions are bounded, `\u{1F600}` and `\k<name>` are put into the engine's words, and the words
that each match must hold are collected, with which the full-text index narrows the search.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import regex

MOST_REPEATED = 5_000
MOST_CHARACTERS = 1_000

_BETWEEN = "\0"  # stands for what parts words, whatever it is: `\b`, `\s`

_PIECE = re.compile(
    r"""\\[pP]\{\w+(?:=\w+)?\} | \\u\{(?P<code>[0-9A-Fa-f]{1,6})\} | \\k<(?P<named>\w+)> | \\(?P<escaped>.)
      | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<open>\((?:\?(?:[ims-]+[:)]|:|=|!|<=|<!|<\w+>))?)
      | (?P<count>\{(?P<least>\d*)(?P<upto>,(?P<most>\d*))?\}[?+]?) | (?P<repeat>[*+?][?+]?)
      | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


class BadPattern(ValueError):
    """A regular expression that cannot be run; the message says why."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that may be run."""

    text: str
    """In the engine's words."""
    words: tuple[str, ...]
    """Words that stand, whole, in whatever matches."""
    literal: str
    """What stands in whatever matches, perhaps with other capitals; empty if nothing longer is known."""


@lru_cache(maxsize=256)
def compiled(pattern: str, *, match_case: bool, dotall: bool) -> "regex.Pattern[str]":
    """The pattern, ready to run: `^` and `$` at each line; V0 is the engine's mode without sets of sets.

    Raises:
        BadPattern: It is not one, or could not be run safely.
    """
    flags = regex.MULTILINE | regex.VERSION0
    flags |= regex.DOTALL if dotall else 0
    # The engine is slower when it need not be if capitals do not count and there are none.
    lettered = any(map(str.isalpha, re.sub(r"\\[dDwWsSbB]", "", pattern)))
    flags |= 0 if match_case or not lettered else regex.IGNORECASE
    text = translated(pattern).text
    try:
        return regex.compile(text, flags)
    except regex.error as error:
        raise BadPattern(str(error)) from error
    except (RecursionError, OverflowError, KeyError, ValueError) as error:
        raise BadPattern("it is too deeply nested or not one") from error


@lru_cache(maxsize=256)
def translated(pattern: str) -> Pattern:
    """Walk a pattern once.

    Raises:
        BadPattern: It could not be run safely.
    """
    if len(pattern) > MOST_CHARACTERS:
        raise BadPattern(f"it has more than {MOST_CHARACTERS:,} characters")
    walk = _Walk()
    for piece in _PIECE.finditer(pattern):
        walk.step(piece)
    if walk.alternatives:
        return Pattern("".join(walk.text), (), "")
    return Pattern("".join(walk.text), tuple(dict.fromkeys(walk.words())), walk.literal())


class _Walk:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.sizes = [0]  # of each open group, expanded
        self.last = 0  # the size of what a repetition repeats
        self.runs: list[list[str]] = [[]]  # what follows each other literally, outside of groups
        self.alternatives = False

    def step(self, piece: "re.Match[str]") -> None:
        whole = piece[0]
        if piece["count"] and (piece["least"] or piece["most"]):
            self._repeat(int(piece["least"] or 0), int(piece["most"] or piece["least"] or 0))
        elif piece["repeat"]:
            self._repeat(1 if whole[0] == "+" else 0, 1)
        elif piece["open"]:
            self._open(piece)
        elif whole == ")":
            self._close()
        else:
            self._atom(self._literal(piece))
        if piece["code"]:
            whole = regex.escape(_character(piece["code"]))
        elif piece["named"]:
            whole = f"(?P={piece['named']})"
        elif piece["escaped"] and piece["escaped"] in "gGKLmMNRX":
            raise BadPattern(f"{whole} is not known in JavaScript's regular expressions")
        elif whole == "{":  # The engine would allow for misspellings: `{e<=3}`.
            whole = r"\{"
        self.text.append(whole)

    def words(self) -> list[str]:
        """What stands between two characters that are certain and part no word."""
        found: list[str] = []
        for run in self.runs:
            inner = re.findall(r"(?<=[^A-Za-z0-9])[A-Za-z0-9]+(?=[^A-Za-z0-9])", "".join(run))
            found += [word.lower() for word in inner]
        return found

    def literal(self) -> str:
        """The longest text that is certain; what is short is found everywhere."""
        longest = max((part for run in self.runs for part in "".join(run).split(_BETWEEN)), key=len)
        return longest if len(longest) > 2 else ""

    def _literal(self, piece: "re.Match[str]") -> str | None:
        if (escaped := piece["escaped"]) is not None:
            return _BETWEEN if escaped in "bs" else escaped if escaped.isascii() and not escaped.isalnum() else None
        other = piece["other"]
        if other == "|" and len(self.sizes) == 1:
            self.alternatives = True
        return other if other is not None and other.isascii() and other not in ".^$|" else None

    def _atom(self, literal: str | None) -> None:
        self.last = 1
        self._grow(1)
        if len(self.sizes) > 1:
            return
        if literal is None:
            self.runs.append([])
        else:
            self.runs[-1].append(literal)

    def _repeat(self, least: int, most: int) -> None:
        self._grow(self.last * max(0, most - 1))
        if len(self.sizes) == 1:
            # What is repeated may be missing, or there more than once: only a separator stays one.
            repeated = self.runs[-1].pop() if self.runs[-1] else None
            kept = [repeated] if repeated is not None and least > 0 and not repeated.isalnum() else []
            self.runs[-1] += kept
            self.runs.append(list(kept))

    def _open(self, piece: "re.Match[str]") -> None:
        after = piece.string[piece.end() : piece.end() + 1]
        if piece[0] == "(" and after in {"?", "*"}:
            raise BadPattern(f"({after} is followed by nothing that JavaScript knows")
        if piece[0].endswith(")"):  # `(?i)` opens nothing.
            return
        self.sizes.append(0)
        if len(self.sizes) > 50:
            raise BadPattern("it is too deeply nested")
        self.runs.append([])

    def _close(self) -> None:
        if len(self.sizes) > 1:
            self.last = max(1, self.sizes.pop())
            self._grow(self.last)
            self.runs.append([])

    def _grow(self, size: int) -> None:
        self.sizes[-1] += size
        if self.sizes[-1] > MOST_REPEATED:
            raise BadPattern(f"its repetitions amount to more than {MOST_REPEATED:,} characters")


def _character(code: str) -> str:
    number = int(code, 16)
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise BadPattern(f"there is no character {code}")
    return chr(number)

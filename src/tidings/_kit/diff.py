"""The differences of two sequences, in bounded work: what takes too much of it counts as replaced as a whole."""

import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, Literal, NamedTuple

WORK: Final = 3_000_000  # Steps that a comparison may take, if nothing else is said: about half a second

_LONGEST_WAY: Final = 1000  # Items removed and added on a shortest way: a way of n takes n² steps and about n² bytes
_MOST_CHARACTERS: Final = 100_000  # Replaced lines that differ in more characters are not compared word by word
_LEAST_COMMON: Final = 0.3
"""The share of the characters that two versions of lines must have in common for their words to be compared."""
_LONGEST_WORD: Final = 100
# In scripts without spaces each character is a word.
_TOKEN: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\s+|."
)
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"

Sign = Literal[" ", "-", "+"]
Span = tuple[int, int]  # From the first character to the one after the last
Spans = Sequence[tuple[Span, ...] | None]
"""For each line the characters that its counterpart does not have; None: it has no counterpart."""


class Replaced(NamedTuple):
    """`old[start:end]` became `new[new_start:new_end]`. One of them may be empty; between two, both are equal."""

    start: int
    end: int
    new_start: int
    new_end: int


class Differing(NamedTuple):
    """All differences in order, and whether they are as small as could be found without a limit on work."""

    changes: list[Replaced]
    exact: bool


class DiffPiece(NamedTuple):
    """A part of a line."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a hunk: as it was (" "), removed ("-") or added ("+")."""

    sign: Sign
    text: str
    old: int | None = None  # Its number in the old text, and in the new one; the first is 1
    new: int | None = None
    words: tuple[Span, ...] | None = None
    """The characters that its counterpart does not have; None: it has no counterpart, or is as it was."""
    left_out: int = 0  # Characters that are not in `text`, because the line is too long

    @property
    def pieces(self) -> tuple[DiffPiece, ...]:
        pieces: list[DiffPiece] = []
        at = 0
        for start, end in self.words or ():
            pieces += DiffPiece(self.text[at:start], False), DiffPiece(self.text[start:end], True)
            at = end
        pieces.append(DiffPiece(self.text[at:], False))
        return tuple(piece for piece in pieces if piece.text)


@dataclass(frozen=True, slots=True)
class Hunk:
    """A place that changed, with some lines around it. Lines count from 1."""

    start: int
    count: int
    new_start: int
    new_count: int
    lines: tuple[DiffLine, ...]
    heading: str = ""  # Its place in words
    left_out: int = 0  # Lines of it that are not in `lines`

    @property
    def title(self) -> str:
        # A place without lines is named by the line above it.
        old, new = self.start - (not self.count), self.new_start - (not self.new_count)
        return f"@@ -{old},{self.count} +{new},{self.new_count} @@ {self.heading}".rstrip()

    @property
    def text(self) -> str:
        """The hunk of a patch, from lines with their ends. A last line in brackets says how many lines are left out."""
        rest = f"[{self.left_out:,} more lines of this place are left out]\n" if self.left_out else ""
        lines = (line.sign + line.text + ("" if line.text.endswith("\n") else _NO_NEWLINE) for line in self.lines)
        return f"{self.title}\n" + "".join(lines) + rest


def differing(old: Sequence[Hashable], new: Sequence[Hashable], work: int = WORK) -> Differing:
    """Returns what to replace in `old` to get `new`, after about `work` steps at most.

    What is between common ends is cut at items that occur equally often on both sides, once if possible, and so is each
    piece. Pieces without such items are compared by the shortest way from one to the other, if that is not too long.
    """
    numbers: dict[Hashable, int] = {}
    before = [numbers.setdefault(item, len(numbers)) for item in old]
    return _Comparison(before, [numbers.setdefault(item, len(numbers)) for item in new], work).run()


def common_start(before: Sequence[str] | bytes, after: Sequence[str] | bytes) -> int:
    """Returns how many characters (or lines, or bytes) both texts begin with. Compares slices, which is fast."""
    most = min(len(before), len(after))
    start, step = 0, most
    while step:
        if start + step <= most and before[start : start + step] == after[start : start + step]:
            start += step
        else:
            step //= 2
    return start


def common_end(before: Sequence[str], after: Sequence[str], most: int) -> int:
    """Returns how many characters (or lines) both texts end with, up to `most`."""
    end, step = 0, most
    while step:
        known, wanted = end, end + step
        old = before[len(before) - wanted : len(before) - known]
        if wanted <= most and old == after[len(after) - wanted : len(after) - known]:
            end = wanted
        else:
            step //= 2
    return end


def common_lines(before: str, after: str) -> tuple[int, int]:
    r"""Returns how many characters both texts begin and end with, in whole lines; only "\n" ends a line."""
    start = before.rfind("\n", 0, common_start(before, after)) + 1
    end = common_end(before, after, min(len(before), len(after)) - start)
    for text in (before, after):
        begin = len(text) - end
        if begin > start and text[begin - 1] != "\n":
            found = text.find("\n", begin)
            end = len(text) - found - 1 if found >= 0 else 0
    return start, end


def changed_words(gone: Sequence[str], come: Sequence[str]) -> tuple[Spans, Spans]:
    """Returns where the words differ in lines that were replaced by others, for the old lines and for the new.

    The lines of each side are compared as one text. Those with little in common, or too long, have no counterparts.
    """
    whole = no_words(gone, come)
    if not gone or not come:
        return whole
    old, new = "".join(gone), "".join(come)
    start = _common_words(old, new)
    end = _common_words(old[start:][::-1], new[start:][::-1])
    middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    if len(middle) + len(new_middle) > _MOST_CHARACTERS:
        return whole
    spans, new_spans = _differing_words(middle, new_middle)
    kept = len(old) - sum(b - a for a, b in spans)
    if kept < _LEAST_COMMON * max(len(old), len(new)):
        return whole
    return list(_by_line(gone, spans, start)), list(_by_line(come, new_spans, start))


def no_words(gone: Sequence[str], come: Sequence[str]) -> tuple[Spans, Spans]:
    """Marks no words: for `make_hunk`, where nobody looks at them."""
    return [None] * len(gone), [None] * len(come)


def grouped(changes: Sequence[Replaced], context: int) -> Iterator[list[Replaced]]:
    """Groups changes for hunks: those with no more than twice `context` items between them belong together."""
    group = list(changes[:1])
    for last, change in pairwise(changes):
        if change.start - last.end > 2 * context:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def make_hunk(
    old: Sequence[str],
    new: Sequence[str],
    group: Sequence[Replaced],
    *,
    context: int = 3,
    above: int = 0,
    heading: str = "",
    words: Callable[[Sequence[str], Sequence[str]], tuple[Spans, Spans]] = changed_words,
    keep: Callable[[Iterator[DiffLine]], Iterable[DiffLine]] = list,
) -> Hunk:
    """Returns the hunk of a group of changes (see `grouped`), with `context` lines around them, below `above` others.

    `words` marks the words in replaced lines; `keep` takes the lines to show, of each run with the same sign, lazily.
    """
    start, new_start = max(0, group[0].start - context), max(0, group[0].new_start - context)
    end, new_end = min(len(old), group[-1].end + context), min(len(new), group[-1].new_end + context)
    shift = group[0].new_start - group[0].start
    lines: list[DiffLine] = []
    at = start
    for change in group:
        lines += keep(_unchanged(old, at, change.start, above, shift))
        gone, come = old[change.start : change.end], new[change.new_start : change.new_end]
        spans, new_spans = words(gone, come)
        lines += keep(_replaced("-", gone, spans, above + change.start))
        lines += keep(_replaced("+", come, new_spans, above + change.new_start))
        at, shift = change.end, change.new_end - change.end
    lines += keep(_unchanged(old, at, end, above, shift))
    total = end - start + sum(change.new_end - change.new_start for change in group)
    place = above + start + 1, end - start, above + new_start + 1, new_end - new_start
    return Hunk(*place, tuple(lines), heading, total - len(lines))


def unified(old: Sequence[str], new: Sequence[str], *, context: int = 3, above: int = 0) -> Iterator[str]:
    """Yields the lines of a patch, without ends and head. `above` lines stand above these parts of the texts."""
    for group in grouped(differing(old, new).changes, context):
        hunk = make_hunk(old, new, group, context=context, above=above, words=no_words)
        yield hunk.title
        for line in hunk.lines:
            yield line.sign + line.text


@dataclass
class _Comparison:
    old: list[int]
    new: list[int]
    work: int
    exact: bool = True

    def run(self) -> Differing:
        pieces = [Replaced(0, len(self.old), 0, len(self.new))]
        found: list[Replaced] = []
        while pieces:
            piece = self._trimmed(pieces.pop())
            if piece.start == piece.end and piece.new_start == piece.new_end:
                continue
            one_sided = piece.start == piece.end or piece.new_start == piece.new_end
            if one_sided or (smaller := self._cut(piece)) is None:
                found.append(piece)
            else:
                pieces += smaller
        joined: list[Replaced] = []
        for change in sorted(found):
            last = joined[-1] if joined else None
            if last and last.end == change.start and last.new_end == change.new_start:
                joined[-1] = Replaced(last.start, change.end, last.new_start, change.new_end)
            else:
                joined.append(change)
        return Differing(joined, self.exact)

    def _trimmed(self, piece: Replaced) -> Replaced:
        start, end, new_start, new_end = piece
        while start < end and new_start < new_end and self.old[start] == self.new[new_start]:
            start, new_start = start + 1, new_start + 1
        while start < end and new_start < new_end and self.old[end - 1] == self.new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
        return Replaced(start, end, new_start, new_end)

    def _cut(self, piece: Replaced) -> list[Replaced] | None:
        """The pieces between what is the same within `piece`; None if it is replaced as a whole."""
        size = piece.end - piece.start + piece.new_end - piece.new_start
        if self.work < size:
            self.exact = False
            return None
        self.work -= size
        old, new = self.old[piece.start : piece.end], self.new[piece.new_start : piece.new_end]
        counts, new_counts = Counter(old), Counter(new)
        if counts.keys().isdisjoint(new_counts):
            return None
        same = _anchors(old, new, counts, new_counts)
        if not same:
            longest = min(_LONGEST_WAY, int(max(self.work, 0) ** 0.5))
            same = _shortest(old, new, longest)
            self.work -= (longest if same is None else size - 2 * len(same)) ** 2
            if same is None:
                self.exact = False
                return None
        same = [(-1, -1), *same, (len(old), len(new))]
        a, b = piece.start, piece.new_start
        pieces = (Replaced(a + x + 1, a + next_x, b + y + 1, b + next_y) for (x, y), (next_x, next_y) in pairwise(same))
        return [one for one in pieces if one.start < one.end or one.new_start < one.new_end]


def _anchors(old: list[int], new: list[int], counts: Counter[int], new_counts: Counter[int]) -> list[tuple[int, int]]:
    """Places of the same items on both sides, ascending on both."""
    for most in (1, len(old)):
        wanted = {item for item, count in counts.items() if count <= most and new_counts[item] == count}
        if wanted:
            places: dict[int, list[int]] = {}
            for new_place, item in enumerate(new):
                if item in wanted:
                    places.setdefault(item, []).append(new_place)
            turns = {item: iter(found) for item, found in places.items()}
            return _ascending([(place, next(turns[item])) for place, item in enumerate(old) if item in wanted])
    return []


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, which ascend in the first, that ascend in the second too."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(at[length - 1] if length else -1)
        if length == len(ends):
            ends.append(second)
            at.append(index)
        else:
            ends[length], at[length] = second, index
    run: list[tuple[int, int]] = []
    index = at[-1] if at else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _shortest(old: list[int], new: list[int], longest: int) -> list[tuple[int, int]] | None:
    """Returns what stays on the shortest way from `old` to `new` (Myers); None if that has over `longest` steps."""
    furthest = array("l", [0]) * (2 * longest + 3)
    middle = longest + 1
    trace: list[array[int]] = []
    for steps in range(longest + 1):
        trace.append(furthest[middle - steps - 1 : middle + steps + 2])
        for diagonal in range(-steps, steps + 1, 2):
            here = middle + diagonal
            down = diagonal == -steps or (diagonal != steps and furthest[here - 1] < furthest[here + 1])
            place = furthest[here + 1] if down else furthest[here - 1] + 1
            while place < len(old) and place - diagonal < len(new) and old[place] == new[place - diagonal]:
                place += 1
            furthest[here] = place
            if place >= len(old) and place - diagonal >= len(new):
                return _walked_back(trace, len(old), len(new))
    return None


def _walked_back(trace: list["array[int]"], place: int, new_place: int) -> list[tuple[int, int]]:
    same: list[tuple[int, int]] = []
    for steps in range(len(trace) - 1, -1, -1):
        furthest, middle = trace[steps], steps + 1
        diagonal = place - new_place
        here = middle + diagonal
        down = diagonal == -steps or (diagonal != steps and furthest[here - 1] < furthest[here + 1])
        origin = furthest[here + 1] if down else furthest[here - 1]
        while place > (origin if down else origin + 1):
            place, new_place = place - 1, new_place - 1
            same.append((place, new_place))
        place, new_place = origin, origin - (diagonal + 1 if down else diagonal - 1)
    return same[::-1]


def _common_words(before: str, after: str) -> int:
    """Counts the characters both begin with, up to the end of a word: one that differs is shown in full."""
    start = common_start(before, after)
    least = max(start - _LONGEST_WORD, 0) if start < max(len(before), len(after)) else start
    while start > least and before[start - 1].isalnum():
        start -= 1
    return start


def _differing_words(before: str, after: str) -> tuple[list[Span], list[Span]]:
    tokens, new_tokens = _TOKEN.findall(before), _TOKEN.findall(after)
    ends, new_ends = ([0, *accumulate(map(len, some))] for some in (tokens, new_tokens))
    tokens, new_tokens = ([" " if token.isspace() else token for token in some] for some in (tokens, new_tokens))
    changes = differing(tokens, new_tokens, 300_000).changes
    return (
        [(ends[one.start], ends[one.end]) for one in changes if one.start < one.end],
        [(new_ends[one.new_start], new_ends[one.new_end]) for one in changes if one.new_start < one.new_end],
    )


def _by_line(lines: Sequence[str], spans: list[Span], offset: int) -> Iterator[tuple[Span, ...]]:
    """The spans, which count from `offset` on in all lines together, as each line's own."""
    begin = -offset
    waiting = spans[::-1]
    for line in lines:
        stop = begin + len(line)
        mine: list[Span] = []
        while waiting and waiting[-1][0] < stop:
            start, end = waiting.pop()
            mine.append((start - begin, min(end, stop) - begin))
            if end > stop:
                waiting.append((stop, end))
        yield tuple(mine)
        begin = stop


def _unchanged(old: Sequence[str], start: int, end: int, above: int, shift: int) -> Iterator[DiffLine]:
    for at in range(start, end):
        yield DiffLine(" ", old[at], above + at + 1, above + at + shift + 1)


def _replaced(sign: Sign, lines: Sequence[str], spans: Spans, before: int) -> Iterator[DiffLine]:
    for number, (text, words) in enumerate(zip(lines, spans, strict=True), before + 1):
        yield DiffLine(sign, text, number if sign == "-" else None, number if sign == "+" else None, words)

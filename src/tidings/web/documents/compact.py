"""A content within a budget of tokens, and an account of what was left out.

The modes differ in the sentences that they pick, word for word:

    salience            the sentences that say the most
    question_focused    the sentences that match the question, and those beside them
    structural          the headings, then sentence by sentence from every section in turn

Quotes are verbatim with their places. Summary, key points, quotes and omissions together stay within `max_tokens`.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final, Literal

from tidings._kit.text import counted
from tidings.web.documents.budget import estimate, weigh
from tidings.web.documents.chunk import SMALLEST, chunk
from tidings.web.documents.markdown import BlockSpan, Path, Sections, blocks_of, shown
from tidings.web.documents.model import Chunk, Compacted, Location, PacketWarning, Quote
from tidings.web.documents.sentences import Salience, Sentence, sentences_of, stem, terms

Mode = Literal["structural", "salience", "question_focused"]

_ROOMY: Final = 150  # The smallest budget with room for key points and quotes.
_POINTS, _QUOTES = 6, 5
_SHORT: Final = 400  # The most characters of a key point or a quote.
_NAMES: Final = {
    "paragraph": ("sentence", "sentences"),
    "quote": ("sentence of quotes", "sentences of quotes"),
    "list": ("list item", "list items"),
    "table": ("table row", "table rows"),
    "code": ("code block", "code blocks"),
}
_BETWEEN: Final = "\n\n"
_MOST: Final = 200_000  # The most sentences that are read.
_SEPARATOR: Final = 1.5
_MISSES: Final = 400  # The search ends after so many sentences in a row that do not fit.
_NEW: Final = 0.2  # The share of its words that must be new.
_K, _B = 1.2, 0.75
_BESIDE: Final = 30  # The number of best sentences whose neighbours are candidates, too.
_ASKING: Final = frozenset(  # Words of questions that do not identify an answer.
    stem(word)
    for words in (
        "how what which when where why who whom whose does did are was were is the and for can could should would",
        "with from this that these those you your have has had its into about there their they them will not",
        "wie was welche welcher welches wann wo warum wer der die das den dem ist sind und für mit von ein eine",
        "comment quel quelle quels quelles quand pourquoi qui que les des est sont dans pour avec une",
        "cómo qué cuál cuáles cuándo dónde por para los las son con una como quais qual quando onde porque",
    )
    for word in words.split()
)


class _Document:
    """A content, or chunks of it, as it is read for a summary: places are those in `content`.

    Chunks that follow each other are joined; others are runs of their own.
    """

    def __init__(self, source: str | Sequence[Chunk]) -> None:
        chunks = [] if isinstance(source, str) else sorted(source, key=lambda one: one["start_char"])
        self.blocks: list[BlockSpan] = []
        self.sentences: list[Sentence] = []
        self.paths: list[Path] = []  # The headings of each section.
        self._runs: list[tuple[int, int]] = []  # The beginning of each run, in `content` and in the original.
        self._chunks = [(one["start_char"], one["chunk_id"]) for one in chunks]
        parts: list[str] = []
        at = 0
        for run, origin, above in [(source, 0, ())] if isinstance(source, str) else _runs(chunks):
            own = blocks_of(run)
            sections = Sections(run, own, above)
            for one in islice(sentences_of(run, own, sections), _MOST - len(self.sentences)):
                section, block = one.section + len(self.paths), one.block + len(self.blocks)
                self.sentences.append(Sentence(one.start + at, one.end + at, one.kind, section, block, one.rank))
            self.blocks.extend(BlockSpan(one.kind, one.start + at, one.end + at, one.level) for one in own)
            self.paths.extend(sections.paths)
            self._runs.append((at, origin))
            parts.append(run)
            at += len(run) + len(_BETWEEN)
        self.content = _BETWEEN.join(parts)

    def text_of(self, number: int) -> str:
        """Returns the text of a sentence."""
        return self.content[self.sentences[number].start : self.sentences[number].end]

    def quote(self, number: int) -> Quote:
        """Returns the words of a sentence with their place in the original."""
        text, at = self.text_of(number), self.sentences[number].start
        begin, origin = self._runs[bisect_right(self._runs, at, key=itemgetter(0)) - 1]
        start = origin + at - begin
        quote = Quote(text=text, loc=Location(start_char=start, end_char=start + len(text)))
        if self._chunks:
            quote["chunk_id"] = self._chunks[bisect_right(self._chunks, start, key=itemgetter(0)) - 1][1]
        return quote


def _runs(chunks: Iterable[Chunk]) -> Iterator[tuple[str, int, Path]]:
    """Yields the runs of chunks that follow each other: text, place in the original, and headings above."""
    runs: list[list[Chunk]] = []
    end = -1
    for one in chunks:
        if one["start_char"] != end:
            runs.append([])
        runs[-1].append(one)
        end = one["start_char"] + len(one["text"])
    for run in runs:
        above = tuple(part for part in run[0]["headings_path"].split(" > ") if part)
        yield "".join(one["text"] for one in run), run[0]["start_char"], above


def compact(
    source: str | Sequence[Chunk],
    *,
    max_tokens: int,
    mode: Mode = "structural",
    question: str | None = None,
    preserve: Iterable[str] = (),
) -> Compacted:
    """Returns a content, or chunks of one, within `max_tokens`. The mode `question_focused` needs a question."""
    text = _Document(source)
    question = (question or "").strip()
    roomy = max_tokens >= _ROOMY
    for_points = min(400, max_tokens * 20 // 100) if roomy else 0
    for_quotes = min(400, max_tokens * 15 // 100) if roomy else 0
    for_omissions = min(300, max(35, max_tokens * 10 // 100))
    for_summary = max_tokens - for_points - for_quotes - for_omissions
    made = Compacted(
        summary=text.content.strip(), key_points=[], important_quotes=[], omissions=[], warnings=[], est_tokens=0
    )
    if mode != "question_focused" and estimate(made["summary"]) <= for_summary:
        return _bound(max_tokens, made)
    salience = Salience(text.content, text.sentences, question, tuple(dict.fromkeys(preserve)))
    order = salience.best
    if mode == "structural":
        order = _by_section(text, salience)
    elif mode == "question_focused" and not (order := _by_question(text, salience, question)):
        message = "Nothing in the text matches the question: the most important sentences are given instead."
        made["warnings"].append(PacketWarning(type="notice", message=message))
        order = salience.best
    # Units of one or two words are used only if there is nothing else.
    order = [n for n in order if len(salience.terms[n]) > 2] or order
    headings = _headings_within(text, for_summary / 2) if mode == "structural" else []
    chosen = _picked(text, salience, order, for_summary - _weight_of(text, headings))
    made["summary"] = _fitted(text, chosen, headings, for_summary)
    # Key points are the next best sentences that the summary has no room for.
    used = set(chosen)
    rest = (n for n in _short(text, order, {"paragraph", "list"}) if n not in used)
    points = sorted(_picked(text, salience, rest, for_points, _POINTS))
    made["key_points"] = list(map(text.text_of, points))
    # Quotations come first.
    fitting = _short(text, order[:500], {"paragraph", "quote", "list"})
    fitting = sorted(fitting, key=lambda n: text.sentences[n].kind != "quote")
    quotes = sorted(_picked(text, salience, fitting, for_quotes, _QUOTES))
    made["important_quotes"] = list(map(text.quote, quotes))
    made["omissions"] = _omissions(text, {*used, *points}, for_omissions)
    return _bound(max_tokens, made)


def _short(text: _Document, order: Sequence[int], kinds: set[str]) -> Iterator[int]:
    units = ((number, text.sentences[number]) for number in order)
    return (number for number, one in units if one.kind in kinds and one.end - one.start <= _SHORT)


def _bound(max_tokens: int, made: Compacted) -> Compacted:
    """Drops items, the least important first, until all of it is within the budget."""
    points = len(made["key_points"])
    messages: list[str] = []

    def size() -> int:
        quotes = (one["text"] for one in made["important_quotes"])
        return estimate("\n".join([made["summary"], *made["key_points"], *quotes, *made["omissions"]]))

    for items, least in ((made["important_quotes"], 0), (made["key_points"], 0), (made["omissions"], 1)):
        while len(items) > least and size() > max_tokens:
            items.pop()
    if lost := points - len(made["key_points"]):
        messages.append(f"There was no room for {lost} of the {points} key points.")
    if (over := size() - max_tokens) > 0:
        room = max(SMALLEST, estimate(made["summary"]) - over)
        made["summary"] = chunk("", made["summary"], max_tokens=room, margin_ratio=0)[0]["text"].rstrip()
        messages.append("The summary was longer than the budget, and was cut.")
    made["warnings"] += (PacketWarning(type="notice", message=message) for message in messages)
    made["est_tokens"] = size()
    return made


def _omissions(text: _Document, kept: Collection[int], budget: int) -> list[str]:
    """Returns what was left out, a sentence each, within `budget` tokens; the counts come first."""
    left = [one for number, one in enumerate(text.sentences) if number not in kept]
    lines: list[str] = []
    if left:
        counts = Counter(one.kind for one in left).most_common()
        lines.append(f"Left out: {', '.join(counted(count, *_NAMES[kind]) for kind, count in counts)}.")
    if len(text.sentences) == _MOST and (unread := len(text.content) - text.sentences[-1].end):
        lines.append(f"The last {unread:,} characters were beyond the limit, and not read.")
    totals = Counter(one.section for one in text.sentences)
    gone = Counter(one.section for one in left)
    wholly = [section for section in sorted(gone) if gone[section] == totals[section]]
    if partly := len(gone) - len(wholly):
        lines.append(f"Parts are missing from {counted(partly, 'section')}.")
    for number, section in enumerate(wholly):
        path = text.paths[section]
        line = f"Nothing {f'below “{shown(path)}”' if path else 'above the first heading'} is kept."
        # Room is kept for the line that counts the rest.
        if estimate("\n".join([*lines, line])) > budget - 15:
            lines.append(f"Nothing of {counted(len(wholly) - number, 'further section')} is kept.")
            break
        lines.append(line)
    return lines


def _by_question(text: _Document, salience: Salience, question: str) -> list[int]:
    """Returns the sentences that match the question (BM25), the best first, then those beside them."""
    asked = frozenset(terms(question))
    asked = asked - _ASKING or asked
    hits = [words & asked for words in salience.terms]
    known = Counter(word for words in hits for word in words)
    count = len(hits)
    idf = {word: math.log(1 + (count - df + 0.5) / (df + 0.5)) for word, df in known.items()}
    mean = sum(map(len, salience.terms)) / max(1, count) or 1.0
    above = [sum(idf.get(word, 0.0) for word in frozenset(terms(" ".join(path))) & asked) for path in text.paths]
    total: dict[int, float] = {}
    for number, words in enumerate(hits):
        size = len(salience.terms[number])
        score = sum(idf[word] for word in words) * (_K + 1) / (1 + _K * (1 - _B + _B * size / mean))
        score *= 1.0 if size > 3 else 0.5
        if score:
            # Of two equal matches, the better score wins, and the one below a heading that matches.
            section = text.sentences[number].section
            total[number] = score * (1 + 0.3 * salience.scores[number]) + 0.5 * above[section]
    matching = sorted((number for number, score in total.items() if score), key=lambda number: -total[number])
    order = dict.fromkeys(matching)
    for number in matching[:_BESIDE]:
        for other in (number + 1, number - 1):
            if 0 <= other < count and text.sentences[other].block == text.sentences[number].block:
                order[other] = None
    return list(order)


def _by_section(text: _Document, salience: Salience) -> list[int]:
    """Returns the best sentence of each section, then the second best of each, and so on."""
    turns: Counter[int] = Counter()
    turned: list[tuple[int, int]] = []
    # The first sentence of a section says what it is about.
    starts = {0, *(n for n, (one, other) in enumerate(pairwise(text.sentences), 1) if one.section != other.section)}
    for number in sorted(salience.best, key=lambda n: -salience.scores[n] - (0.6 if n in starts else 0.0)):
        section = text.sentences[number].section
        turned.append((turns[section], number))
        turns[section] += 1
    return [number for _, number in sorted(turned)]


def _picked(text: _Document, salience: Salience, order: Iterable[int], budget: float, most: int = 10**9) -> list[int]:
    """Returns as many of `order` as fit into `budget`, without repetitions."""
    chosen: list[int] = []
    covered: set[str] = set()
    seen: set[str] = set()
    misses = 0
    for number in order:
        if len(chosen) >= most or misses >= _MISSES or budget < _SEPARATOR:
            break
        sentence, words = text.text_of(number), salience.terms[number]
        weight = weigh(sentence) + _SEPARATOR
        if weight > budget:
            misses += 1
        elif sentence not in seen and (len(words) <= 5 or len(words - covered) >= _NEW * len(words)):
            seen.add(sentence)
            covered |= words
            chosen.append(number)
            budget -= weight
            misses = 0
    return chosen


def _headings_within(text: _Document, budget: float) -> list[int]:
    """Returns the numbers of heading blocks, down to the deepest level at which all of them fit."""
    kept: list[int] = []
    for level in range(1, 7):
        numbers = [number for number, block in enumerate(text.blocks) if block.level == level]
        budget -= _weight_of(text, numbers)
        if budget < 0:
            break
        kept += numbers
    return kept


def _weight_of(text: _Document, blocks: Iterable[int]) -> float:
    return sum(weigh(text.content[text.blocks[n].start : text.blocks[n].end]) + _SEPARATOR for n in blocks)


def _fitted(text: _Document, sentences: list[int], headings: list[int], budget: int) -> str:
    """Returns what was picked, word for word, in the order of the text; without the last ones if it is over the budget.

    Joined, they can weigh a little more than separately.
    """
    while True:
        parts = [(text.blocks[n].start, text.blocks[n].end, -1 - n, "heading") for n in headings]
        picked = (text.sentences[n] for n in sentences)
        parts += [(one.start, one.end, one.block, one.kind) for one in picked]
        out: list[str] = []
        before: int | None = None
        for start, end, block, kind in sorted(parts):
            if out:
                together = "\n" if kind in {"list", "table"} else " "
                out.append(together if block == before else "\n\n")
            out.append(text.content[start:end])
            before = block
        result = "".join(out)
        if estimate(result) <= budget or not (sentences or headings):
            return result
        (sentences or headings).pop()

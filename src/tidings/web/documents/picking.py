"""The sentences that a summary keeps: the order in which they are wanted, and those that fit.

salience            the sentences that say the most
question_focused    the sentences that match the question, and those beside them
structural          the headings, then sentence by sentence from every section in turn
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from operator import itemgetter

from tidings.web.documents.budget import estimate, weigh
from tidings.web.documents.markdown import BlockSpan, Path, Sections, blocks_of
from tidings.web.documents.model import Chunk, Location, Quote
from tidings.web.documents.sentences import Salience, Sentence, sentences_of, stem, terms

_BETWEEN = "\n\n"
_MOST = 200_000  # The most sentences that are read.
_SEPARATOR = 1.5
_MISSES = 400  # The search ends after so many sentences in a row that do not fit.
_NEW = 0.2  # The share of its words that must be new.
_K, _B = 1.2, 0.75
_BESIDE = 30  # The number of best sentences whose neighbours are candidates, too.
_ASKING = frozenset(  # Words of questions that do not identify an answer.
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


@dataclass
class Document:
    """A content as it is read for a summary. Places are those in `content`."""

    content: str
    chunks: list[tuple[int, str]]  # The beginning of each chunk in the original, and its id, if chunks were given.
    blocks: list[BlockSpan] = field(default_factory=list[BlockSpan])
    sentences: list[Sentence] = field(default_factory=list[Sentence])
    paths: list[Path] = field(default_factory=list[Path])  # The headings of each section.
    runs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """The beginning of each run, in `content` and in the original."""

    @property
    def unread(self) -> int:
        """The number of characters at the end that were not read."""
        return len(self.content) - self.sentences[-1].end if len(self.sentences) == _MOST else 0

    def quote(self, one: Sentence) -> Quote:
        """Returns the words of a sentence with their place in the original."""
        begin, origin = self.runs[bisect_right(self.runs, one.start, key=itemgetter(0)) - 1]
        start = origin + one.start - begin
        loc = Location(start_char=start, end_char=start + one.end - one.start)
        quote = Quote(text=self.content[one.start : one.end], loc=loc)
        if self.chunks:
            quote["chunk_id"] = self.chunks[bisect_right(self.chunks, start, key=itemgetter(0)) - 1][1]
        return quote


def document(source: str | Sequence[Chunk]) -> Document:
    """Reads a content, or chunks of it: those that follow each other are joined, others are runs of their own."""
    chunks = [] if isinstance(source, str) else sorted(source, key=lambda one: one["start_char"])
    runs = [(source, 0, ())] if isinstance(source, str) else _runs(chunks)
    content = _BETWEEN.join(run for run, _, _ in runs)
    text = Document(content, [(one["start_char"], one["chunk_id"]) for one in chunks])
    at = 0
    for run, origin, above in runs:
        own = blocks_of(run)
        sections = Sections(run, own, above)
        for one in islice(sentences_of(run, own, sections), _MOST - len(text.sentences)):
            section, block = one.section + len(text.paths), one.block + len(text.blocks)
            text.sentences.append(Sentence(one.start + at, one.end + at, one.kind, section, block, one.rank))
        text.blocks.extend(BlockSpan(one.kind, one.start + at, one.end + at, one.level) for one in own)
        text.paths.extend(sections.paths)
        text.runs.append((at, origin))
        at += len(run) + len(_BETWEEN)
    return text


def _runs(chunks: Iterable[Chunk]) -> list[tuple[str, int, Path]]:
    """Returns the runs of chunks that follow each other: text, place in the original, and headings above."""
    runs: list[tuple[list[str], int, Path]] = []
    end = -1
    for one in chunks:
        if one["start_char"] != end:
            above = tuple(part for part in one["headings_path"].split(" > ") if part)
            runs.append(([], one["start_char"], above))
        runs[-1][0].append(one["text"])
        end = one["start_char"] + len(one["text"])
    return [("".join(texts), origin, above) for texts, origin, above in runs]


def by_salience(salience: Salience) -> list[int]:
    """Returns all sentences, the best score first."""
    return sorted(range(len(salience.scores)), key=lambda number: -salience.scores[number])


def by_question(text: Document, salience: Salience, question: str) -> list[int]:
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


def by_section(text: Document, salience: Salience) -> list[int]:
    """Returns the best sentence of each section, then the second best of each, and so on."""
    turns: Counter[int] = Counter()
    turned: list[tuple[int, int]] = []
    # The first sentence of a section says what it is about.
    starts = {0, *(n for n, (one, other) in enumerate(pairwise(text.sentences), 1) if one.section != other.section)}
    order = sorted(by_salience(salience), key=lambda n: -salience.scores[n] - (0.6 if n in starts else 0.0))
    for number in order:
        section = text.sentences[number].section
        turned.append((turns[section], number))
        turns[section] += 1
    return [number for _, number in sorted(turned)]


def pick(text: Document, salience: Salience, order: Iterable[int], budget: float, most: int = 10**9) -> list[int]:
    """Returns as many of `order` as fit into `budget`, without repetitions."""
    chosen: list[int] = []
    covered: set[str] = set()
    seen: set[str] = set()
    misses = 0
    for number in order:
        if len(chosen) >= most or misses >= _MISSES or budget < _SEPARATOR:
            break
        one, words = text.sentences[number], salience.terms[number]
        sentence = text.content[one.start : one.end]
        weight = weigh(sentence) + _SEPARATOR
        if weight > budget:
            misses += 1
            continue
        if sentence in seen or (len(words) > 5 and len(words - covered) < _NEW * len(words)):
            continue
        seen.add(sentence)
        covered |= words
        chosen.append(number)
        budget -= weight
        misses = 0
    return chosen


def headings_within(text: Document, budget: float) -> list[int]:
    """Returns the numbers of heading blocks, down to the deepest level at which all of them fit."""
    levels: dict[int, list[int]] = {}
    for number, block in enumerate(text.blocks):
        if block.kind == "heading":
            levels.setdefault(block.level, []).append(number)
    kept: list[int] = []
    for level in sorted(levels):
        weight = weight_of(text, levels[level])
        if weight > budget:
            break
        budget -= weight
        kept += levels[level]
    return kept


def weight_of(text: Document, blocks: Iterable[int]) -> float:
    """Returns the weight of blocks, with separators."""
    return sum(weigh(text.content[text.blocks[n].start : text.blocks[n].end]) + _SEPARATOR for n in blocks)


def written(text: Document, sentences: Sequence[int], headings: Sequence[int] = ()) -> str:
    """Returns what was picked, in the order of the text, word for word."""
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
    return "".join(out)


def fitted(text: Document, sentences: list[int], headings: list[int], budget: int) -> str:
    """Returns what was picked, without the last ones while it is over the budget."""
    result = written(text, sentences, headings)
    while estimate(result) > budget and (sentences or headings):
        # Joined, they can weigh a little more than separately.
        (sentences or headings).pop()
        result = written(text, sentences, headings)
    return result

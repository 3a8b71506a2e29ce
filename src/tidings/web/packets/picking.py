"""Which sentences a summary keeps: the order in which they are wanted, and those that fit.

salience            what says the most of the whole
question_focused    what speaks of the question (BM25 over sentences), and what stands beside it
structural          the headings, then sentence by sentence from every section in turn
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from tidings.web.packets.document import Document
from tidings.web.packets.salience import Salience, stem, terms
from tidings.web.packets.tokens import estimate, weigh

_SEPARATOR = 1.5
_MISSES = 400
"""Sentences in a row that may be too long for what is left before the search for a shorter one ends."""
_NEW = 0.2
"""The part of its words that a sentence must add to those picked before."""
_K, _B = 1.2, 0.75
_BESIDE = 30
"""How many of the best have their neighbours asked in."""
_ASKING = frozenset(
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
"""Words of questions that no answer is known by."""


def by_salience(salience: Salience) -> list[int]:
    """All sentences, the one that says the most first."""
    return sorted(range(len(salience.scores)), key=lambda number: -salience.scores[number])


def by_question(text: Document, salience: Salience, question: str) -> list[int]:
    """The sentences that speak of the question, the best first, then those beside them; none if nothing does."""
    asked = frozenset(terms(question))
    asked = asked - _ASKING or asked
    hits = [words & asked for words in salience.terms]
    known = Counter(word for words in hits for word in words)
    count = len(hits)
    idf = {word: math.log(1 + (count - df + 0.5) / (df + 0.5)) for word, df in known.items()}
    mean = sum(map(len, salience.terms)) / max(1, count) or 1.0
    above = [sum(idf.get(word, 0.0) for word in frozenset(terms(" ".join(path))) & asked) for path in text.paths]
    scores = [
        sum(idf[word] for word in words)
        * (_K + 1)
        / (1 + _K * (1 - _B + _B * len(salience.terms[number]) / mean))
        * (1.0 if len(salience.terms[number]) > 3 else 0.5)
        for number, words in enumerate(hits)
    ]
    total = [
        # Of two that match alike, the one that says more, and the one below a heading that matches.
        score * (1 + 0.3 * salience.scores[number]) + 0.5 * above[text.sentences[number].section] if score else 0.0
        for number, score in enumerate(scores)
    ]
    matching = sorted((number for number in range(count) if total[number]), key=lambda number: -total[number])
    return list(dict.fromkeys([*matching, *_beside(text, matching)]))


def _beside(text: Document, numbers: Sequence[int]) -> Iterable[int]:
    """What follows and what precedes the best of them in the same block."""
    for number in numbers[:_BESIDE]:
        for other in (number + 1, number - 1):
            if 0 <= other < len(text.sentences) and text.sentences[other].block == text.sentences[number].block:
                yield other


def by_section(text: Document, salience: Salience) -> list[int]:
    """The best sentence of each section, then the second best of each, and so on."""
    turns: Counter[int] = Counter()
    turned: list[tuple[int, int]] = []
    # What opens a section tells what it is about.
    order = sorted(by_salience(salience), key=lambda number: -salience.scores[number] - _opens(text, number))
    for number in order:
        section = text.sentences[number].section
        turned.append((turns[section], number))
        turns[section] += 1
    return [number for _, number in sorted(turned)]


def _opens(text: Document, number: int) -> float:
    before = text.sentences[number - 1].section if number else -1
    return 0.6 if text.sentences[number].section != before else 0.0


def pick(text: Document, salience: Salience, order: Iterable[int], budget: float, most: int = 10**9) -> list[int]:
    """As many of `order` as fit into `budget`, first come first kept, without what repeats what is there already."""
    chosen: list[int] = []
    covered: set[str] = set()
    seen: set[str] = set()
    misses = 0
    for number in order:
        if len(chosen) >= most or misses >= _MISSES or budget < _SEPARATOR:
            break
        one, words = text.sentences[number], salience.terms[number]
        said = text.content[one.start : one.end]
        weight = weigh(said) + _SEPARATOR
        if weight > budget:
            misses += 1
            continue
        fresh = len(words - covered)
        if said in seen or (len(words) > 5 and fresh < _NEW * len(words)):
            continue
        seen.add(said)
        covered |= words
        chosen.append(number)
        budget -= weight
        misses = 0
    return chosen


def headings_within(text: Document, budget: float) -> list[int]:
    """The numbers of the blocks that are headings, down to the deepest level at which all of them fit."""
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
    """What blocks weigh, with what parts them."""
    return sum(weigh(text.content[text.blocks[n].start : text.blocks[n].end]) + _SEPARATOR for n in blocks)


def written(text: Document, sentences: Sequence[int], headings: Sequence[int] = ()) -> str:
    """What was picked, in the order of the text, as it stands there."""
    parts = [(text.blocks[n].start, text.blocks[n].end, -1 - n, "heading") for n in headings]
    for number in sentences:
        one = text.sentences[number]
        parts.append((one.start, one.end, one.block, one.kind))
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
    """What was picked; less of it, from the last wanted on, while it is over the budget."""
    said = written(text, sentences, headings)
    while estimate(said) > budget and (sentences or headings):
        # Joined, they can weigh a little more than each for itself.
        (sentences or headings).pop()
        said = written(text, sentences, headings)
    return said

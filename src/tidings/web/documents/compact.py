"""A content made to fit a budget of tokens, and an account of what that cost.

    structural, salience, question_focused    pick sentences (see `picking`): what they say stands in the content
    map_reduce                                a model writes the summary, through `sample`; without one: salience

Whatever the mode, the quotes are verbatim with their places, the omissions are counted, and summary, key points, quotes
and omissions together keep within `max_tokens`.

What a summary left out, told truthfully: how much, of which kinds, and of which sections everything.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from anyio import to_thread

from tidings.web.documents.budget import estimate
from tidings.web.documents.chunk import SMALLEST as MARGINLESS
from tidings.web.documents.chunk import chunk
from tidings.web.documents.map_reduce import ModelSummary, Sample, SampleFailed, map_reduce
from tidings.web.documents.markdown import shown
from tidings.web.documents.model import Chunk, Compacted, PacketWarning, Quote
from tidings.web.documents.picking import (
    Document,
    by_question,
    by_salience,
    by_section,
    document,
    fitted,
    headings_within,
    pick,
    weight_of,
)
from tidings.web.documents.sentences import PRESERVED, Salience

_NAMES = {
    "paragraph": ("sentence", "sentences"),
    "quote": ("sentence of quotes", "sentences of quotes"),
    "list": ("list item", "list items"),
    "table": ("table row", "table rows"),
    "code": ("code block", "code blocks"),
}


def omissions(text: Document, kept: Collection[int], budget: int) -> list[str]:
    """One sentence each, within `budget` tokens as far as that is possible: the count is always told."""
    left = [one for number, one in enumerate(text.sentences) if number not in kept]
    if not left:
        return _unread(text)
    counts = Counter(one.kind for one in left)
    told = [f"Left out: {', '.join(_counted(count, *_NAMES[kind]) for kind, count in counts.most_common())}."]
    told += _unread(text)
    totals = Counter(one.section for one in text.sentences)
    gone = Counter(one.section for one in left)
    partly = sum(1 for section, count in gone.items() if count < totals[section])
    wholly = [section for section in sorted(gone) if gone[section] == totals[section]]
    if partly:
        told.append(f"Parts are missing from {_counted(partly, 'section', 'sections')}.")
    unnamed = 0
    for section in wholly:
        line = f"Nothing below “{shown(text.paths[section])}” is kept."
        if not text.paths[section]:
            line = "Nothing above the first heading is kept."
        # Room is kept for the line that counts the rest.
        if estimate("\n".join([*told, line])) > budget - 15:
            unnamed = len(wholly) - wholly.index(section)
            break
        told.append(line)
    if unnamed:
        told.append(f"Nothing of {_counted(unnamed, 'further section', 'further sections')} is kept.")
    return told


def _unread(text: Document) -> list[str]:
    return [f"The last {text.unread:,} characters were too many to be looked at."] if text.unread else []


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


__all__ = ["MODES", "PRESERVED", "SMALLEST", "Mode", "Sample", "SampleFailed", "compact"]

Mode = Literal["structural", "salience", "map_reduce", "question_focused"]
MODES: tuple[Mode, ...] = ("structural", "salience", "map_reduce", "question_focused")

SMALLEST = 50
_ROOMY = 150
"""Tokens from which on there is room for key points and quotes."""
_POINTS, _QUOTES = 6, 5
_SHORT = 400
"""Characters of a key point or a quote at most."""


async def compact(
    source: str | Sequence[Chunk],
    *,
    max_tokens: int,
    mode: Mode = "structural",
    question: str | None = None,
    preserve: Iterable[str] = (),
    sample: Sample | None = None,
) -> Compacted:
    """A content, or chunks of one, within `max_tokens`.

    Raises:
        ValueError: An option is none; the text says what to give instead.
    """
    wish = _Wish(max_tokens, mode, (question or "").strip(), tuple(dict.fromkeys(preserve)))
    wish.check()
    if mode != "map_reduce":
        return _extracted(document(source), wish)  # without ever waiting: it may run in a thread of its own
    text = await to_thread.run_sync(document, source)
    notice = None if sample else "The client offers no sampling: what says the most is given instead."
    if sample is not None and text.sentences:
        try:
            return await _by_model(text, wish, sample)
        except SampleFailed as error:
            notice = f"No model wrote a summary ({error}): what says the most is given instead."
    return await to_thread.run_sync(_extracted, text, wish, notice)


@dataclass(frozen=True)
class _Wish:
    """What was asked for."""

    max_tokens: int
    mode: Mode
    question: str
    preserve: tuple[str, ...]

    def check(self) -> None:
        if self.max_tokens < SMALLEST:
            raise ValueError(f"{self.max_tokens} tokens are too few for a summary: give {SMALLEST} or more.")
        if self.mode not in MODES:
            raise ValueError(f"The mode {self.mode!r} is unknown: give one of {', '.join(MODES)}.")
        if self.mode == "question_focused" and not self.question:
            raise ValueError("The mode question_focused needs a question: give one.")
        for name in self.preserve:
            if name not in PRESERVED:
                raise ValueError(f"{name!r} cannot be preserved: give any of {', '.join(PRESERVED)}.")


def _extracted(text: Document, wish: _Wish, notice: str | None = None) -> Compacted:
    shares = _Shares(wish.max_tokens)
    notices = [notice] if notice else []
    whole = text.content.strip()
    if wish.mode != "question_focused" and estimate(whole) <= shares.summary:
        return _bound(wish, _Parts(whole), notices)
    salience = Salience(text.content, text.sentences, wish.question, wish.preserve)
    order = _order(text, salience, wish)
    if not order:
        notices.append("Nothing in the text speaks of the question: what says the most is given instead.")
        order = by_salience(salience)
    # A word or two says nothing, unless there is nothing else.
    order = [n for n in order if len(salience.terms[n]) > 2] or order
    headings = headings_within(text, shares.summary / 2) if wish.mode == "structural" else []
    chosen = pick(text, salience, order, shares.summary - weight_of(text, headings))
    summary = fitted(text, chosen, headings, shares.summary)
    points = _points(text, salience, order, set(chosen), shares.points)
    parts = _Parts(
        summary,
        [text.content[text.sentences[n].start : text.sentences[n].end] for n in points],
        _quotes(text, salience, order, shares.quotes),
        omissions(text, {*chosen, *points}, shares.omissions),
    )
    return _bound(wish, parts, notices)


def _order(text: Document, salience: Salience, wish: _Wish) -> list[int]:
    if wish.mode == "question_focused":
        return by_question(text, salience, wish.question)
    return by_section(text, salience) if wish.mode == "structural" else by_salience(salience)


class _Shares:
    """How the budget is divided."""

    def __init__(self, max_tokens: int) -> None:
        roomy = max_tokens >= _ROOMY
        self.points = min(400, max_tokens * 20 // 100) if roomy else 0
        self.quotes = min(400, max_tokens * 15 // 100) if roomy else 0
        self.omissions = min(300, max(35, max_tokens * 10 // 100))
        self.summary = max_tokens - self.points - self.quotes - self.omissions


def _points(text: Document, salience: Salience, order: Sequence[int], used: set[int], budget: int) -> list[int]:
    """The next best that the summary has no room for, in the order of the text."""
    rest = (
        n for n in order if n not in used and _is_short(text, n) and text.sentences[n].kind in {"paragraph", "list"}
    )
    return sorted(pick(text, salience, rest, budget, _POINTS))


def _quotes(text: Document, salience: Salience, order: Sequence[int], budget: int) -> list[Quote]:
    fitting = [
        n for n in order[:500] if _is_short(text, n) and text.sentences[n].kind in {"paragraph", "quote", "list"}
    ]
    # Somebody's own words before words about them.
    fitting.sort(key=lambda n: text.sentences[n].kind != "quote")
    quoted = sorted(pick(text, salience, fitting, budget, _QUOTES))
    return [text.quote(text.sentences[n]) for n in quoted]


def _is_short(text: Document, number: int) -> bool:
    one = text.sentences[number]
    return one.end - one.start <= _SHORT


async def _by_model(text: Document, wish: _Wish, sample: Sample) -> Compacted:
    shares = _Shares(wish.max_tokens)
    budget = shares.summary + shares.points
    written = await map_reduce(text.content, budget, sample, question=wish.question, preserve=wish.preserve)
    quotes = await to_thread.run_sync(_best_quotes, text, wish, shares.quotes)
    parts = _Parts(written.summary, written.key_points, quotes, _untold(written))
    return _bound(wish, parts, ["A model wrote summary and key points: only the quotes are the page's own words."])


def _best_quotes(text: Document, wish: _Wish, budget: int) -> list[Quote]:
    salience = Salience(text.content, text.sentences, wish.question, wish.preserve)
    return _quotes(text, salience, by_question(text, salience, wish.question) or by_salience(salience), budget)


def _untold(written: ModelSummary) -> list[str]:
    """What is known to be missing from a summary by a model; the rest nobody can tell."""
    told = [f"A model read {written.chunks:,} chunks; what it passed over is not known."]
    if written.unread:
        told.append(f"The last {written.unread:,} chunks were too many to be read.")
    if written.failed:
        names = ", ".join(f"“{path}”" for path in dict.fromkeys(written.failed) if path)
        told.append(f"There are no notes on {len(written.failed):,} chunks{f' ({names})' if names else ''}.")
    return told


@dataclass(frozen=True)
class _Parts:
    """What a summary is made of, each part still free to lose its end."""

    summary: str
    key_points: list[str] = field(default_factory=list[str])
    quotes: list[Quote] = field(default_factory=list[Quote])
    omissions: list[str] = field(default_factory=list[str])

    def size(self) -> int:
        """In tokens."""
        return estimate(
            "\n".join([self.summary, *self.key_points, *(one["text"] for one in self.quotes), *self.omissions])
        )

    def drop(self) -> bool:
        """Do without what can be missed first; False if there is nothing left but the summary and one omission."""
        for part in (self.quotes, self.key_points, self.omissions[1:] and self.omissions):
            if part:
                part.pop()
                return True
        return False


def _bound(wish: _Wish, parts: _Parts, notices: list[str]) -> Compacted:
    points = len(parts.key_points)
    while parts.size() > wish.max_tokens and parts.drop():
        pass
    if lost := points - len(parts.key_points):
        notices.append(f"There was no room for {lost} of the {points} key points.")
    if (over := parts.size() - wish.max_tokens) > 0:
        room = max(MARGINLESS, estimate(parts.summary) - over)
        parts = replace(parts, summary=chunk("", parts.summary, max_tokens=room, margin_ratio=0)[0]["text"].rstrip())
        notices.append("The summary was longer than the budget: its end is missing.")
    return Compacted(
        summary=parts.summary,
        key_points=parts.key_points,
        important_quotes=parts.quotes,
        omissions=parts.omissions,
        warnings=[PacketWarning(type="notice", message=one) for one in notices],
        est_tokens=parts.size(),
    )

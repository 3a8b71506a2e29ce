"""A content within a budget of tokens, and an account of what was left out.

The modes differ in the sentences that they pick, word for word (see `picking`).

Quotes are verbatim with their places. Summary, key points, quotes and omissions together stay within `max_tokens`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from tidings._kit.text import counted
from tidings.web.documents import picking
from tidings.web.documents.budget import estimate
from tidings.web.documents.chunk import SMALLEST, chunk
from tidings.web.documents.markdown import shown
from tidings.web.documents.model import Chunk, Compacted, PacketWarning, Quote
from tidings.web.documents.picking import Document, document
from tidings.web.documents.sentences import Salience

Mode = Literal["structural", "salience", "question_focused"]

_ROOMY = 150  # The smallest budget with room for key points and quotes.
_POINTS, _QUOTES = 6, 5
_SHORT = 400  # The most characters of a key point or a quote.

_NAMES = {
    "paragraph": ("sentence", "sentences"),
    "quote": ("sentence of quotes", "sentences of quotes"),
    "list": ("list item", "list items"),
    "table": ("table row", "table rows"),
    "code": ("code block", "code blocks"),
}


def compact(
    source: str | Sequence[Chunk],
    *,
    max_tokens: int,
    mode: Mode = "structural",
    question: str | None = None,
    preserve: Iterable[str] = (),
) -> Compacted:
    """Returns a content, or chunks of one, within `max_tokens`. The mode `question_focused` needs a question."""
    text = document(source)
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
    if mode == "question_focused":
        order = picking.by_question(text, salience, question)
    else:
        order = picking.by_section(text, salience) if mode == "structural" else picking.by_salience(salience)
    if not order:
        message = "Nothing in the text matches the question: the most important sentences are given instead."
        made["warnings"].append(_notice(message))
        order = picking.by_salience(salience)
    # Units of one or two words are used only if there is nothing else.
    order = [n for n in order if len(salience.terms[n]) > 2] or order
    headings = picking.headings_within(text, for_summary / 2) if mode == "structural" else []
    chosen = picking.pick(text, salience, order, for_summary - picking.weight_of(text, headings))
    made["summary"] = picking.fitted(text, chosen, headings, for_summary)
    # Key points are the next best sentences that the summary has no room for.
    used = set(chosen)
    rest = (n for n in _short(text, order, {"paragraph", "list"}) if n not in used)
    points = sorted(picking.pick(text, salience, rest, for_points, _POINTS))
    made["key_points"] = [text.content[text.sentences[n].start : text.sentences[n].end] for n in points]
    made["important_quotes"] = _quotes(text, salience, order, for_quotes)
    made["omissions"] = _omissions(text, {*used, *points}, for_omissions)
    return _bound(max_tokens, made)


def _quotes(text: Document, salience: Salience, order: Sequence[int], budget: int) -> list[Quote]:
    fitting = _short(text, order[:500], {"paragraph", "quote", "list"})
    # Quotations come first.
    wanted = sorted(fitting, key=lambda n: text.sentences[n].kind != "quote")
    return [text.quote(text.sentences[n]) for n in sorted(picking.pick(text, salience, wanted, budget, _QUOTES))]


def _short(text: Document, order: Sequence[int], kinds: set[str]) -> Iterator[int]:
    units = ((number, text.sentences[number]) for number in order)
    return (number for number, one in units if one.kind in kinds and one.end - one.start <= _SHORT)


def _bound(max_tokens: int, made: Compacted) -> Compacted:
    """Drops items, the least important first, until all of it is within the budget."""
    points = len(made["key_points"])

    def size() -> int:
        quotes = (one["text"] for one in made["important_quotes"])
        return estimate("\n".join([made["summary"], *made["key_points"], *quotes, *made["omissions"]]))

    for items, least in ((made["important_quotes"], 0), (made["key_points"], 0), (made["omissions"], 1)):
        while len(items) > least and size() > max_tokens:
            items.pop()
    if lost := points - len(made["key_points"]):
        made["warnings"].append(_notice(f"There was no room for {lost} of the {points} key points."))
    if (over := size() - max_tokens) > 0:
        room = max(SMALLEST, estimate(made["summary"]) - over)
        made["summary"] = chunk("", made["summary"], max_tokens=room, margin_ratio=0)[0]["text"].rstrip()
        made["warnings"].append(_notice("The summary was longer than the budget, and was cut."))
    made["est_tokens"] = size()
    return made


def _notice(message: str) -> PacketWarning:
    return PacketWarning(type="notice", message=message)


def _omissions(text: Document, kept: Collection[int], budget: int) -> list[str]:
    """Returns what was left out, a sentence each, within `budget` tokens; the counts come first."""
    left = [one for number, one in enumerate(text.sentences) if number not in kept]
    lines: list[str] = []
    if left:
        counts = Counter(one.kind for one in left).most_common()
        lines.append(f"Left out: {', '.join(counted(count, *_NAMES[kind]) for kind, count in counts)}.")
    if text.unread:
        lines.append(f"The last {text.unread:,} characters were beyond the limit, and not read.")
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

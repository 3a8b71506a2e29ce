"""A content as it is read for a summary: its sentences, their sections, and where each stands in the original.

Chunks that follow each other are joined again. Where some are missing between them, what is left are several runs, each
read for itself.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tidings.web.packets.blocks import Span, blocks_of
from tidings.web.packets.model import Chunk, Location, Quote
from tidings.web.packets.sections import Path, Sections
from tidings.web.packets.sentences import Sentence, sentences_of

_BETWEEN = "\n\n"
_MOST = 200_000
"""Sentences that are looked at."""


@dataclass(frozen=True)
class _Run:
    """A part of the original without gaps."""

    text: str
    origin: int
    above: Path = ()


@dataclass(frozen=True)
class Document:
    """What a summary is made from. Places are those in `content`."""

    content: str
    blocks: list[Span]
    sentences: list[Sentence]
    paths: list[Path]
    """The headings of each section."""
    starts: list[int]
    """Where each run begins in `content`."""
    origins: list[int]
    """Where it began in the original."""
    unread: int
    """Characters at the end that were too many to be looked at."""
    chunks: list[tuple[int, str]]
    """Where each chunk began in the original, and its id; none if no chunks were given."""

    def quote(self, one: Sentence) -> Quote:
        """The words of a sentence, with their place in the original."""
        run = bisect_right(self.starts, one.start) - 1
        start = self.origins[run] + one.start - self.starts[run]
        loc = Location(start_char=start, end_char=start + one.end - one.start)
        quote = Quote(text=self.content[one.start : one.end], loc=loc)
        if self.chunks:
            quote["chunk_id"] = self.chunks[bisect_right(self.chunks, start, key=lambda known: known[0]) - 1][1]
        return quote


def document(source: str | Sequence[Chunk]) -> Document:
    """Read a content, or the chunks that are left of one."""
    if isinstance(source, str):
        return _read([_Run(source, 0)], [])
    chunks = sorted(source, key=lambda one: one["start_char"])
    return _read(_runs(chunks), [(one["start_char"], one["chunk_id"]) for one in chunks])


def _runs(chunks: Iterable[Chunk]) -> list[_Run]:
    runs: list[_Run] = []
    texts: list[list[str]] = []
    end = -1
    for one in chunks:
        if one["start_char"] != end:
            path = tuple(part for part in one["headings_path"].split(" > ") if part)
            runs.append(_Run("", one["start_char"], path))
            texts.append([])
        texts[-1].append(one["text"])
        end = one["start_char"] + len(one["text"])
    return [_Run("".join(text), run.origin, run.above) for text, run in zip(texts, runs, strict=True)]


def _read(runs: Sequence[_Run], chunks: list[tuple[int, str]]) -> Document:
    blocks: list[Span] = []
    sentences: list[Sentence] = []
    paths: list[Path] = []
    starts: list[int] = []
    at = 0
    for run in runs:
        own = blocks_of(run.text)
        sections = Sections(run.text, own, run.above)
        for one in islice(sentences_of(run.text, own, sections), _MOST - len(sentences)):
            place = (
                one.start + at,
                one.end + at,
                one.kind,
                one.section + len(paths),
                one.block + len(blocks),
                one.rank,
            )
            sentences.append(Sentence(*place))
        blocks.extend(Span(one.kind, one.start + at, one.end + at, one.level) for one in own)
        paths.extend(sections.paths)
        starts.append(at)
        at += len(run.text) + len(_BETWEEN)
    content = _BETWEEN.join(run.text for run in runs)
    unread = len(content) - sentences[-1].end if len(sentences) == _MOST else 0
    origins = [run.origin for run in runs]
    return Document(content, blocks, sentences, paths, starts or [0], origins or [0], unread, chunks)

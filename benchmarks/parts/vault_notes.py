"""Vaults to measure with: as many notes as one wants, the same for the same seed, and what is true of them.

A note has about 2.4 KB: properties, headings, links of both kinds, tags, tasks, now and then code. Its words are made
of syllables, and are as unequally frequent as those of a language (Zipf). Words that are searched for hold letters that
no other has, so that what a search has to find is known exactly.
"""

import json
import os
import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

RARE: Final = "quetzal"
"""In three notes."""
COMMON: Final = "which"
"""In most."""
PHRASE: Final = "hazy cypher chart"
"""In one of a hundred notes."""
PATTERN: Final = "qu[aeiou]tz[a-z]+"
"""A regular expression that finds what `RARE` finds."""

_VOCABULARY: Final = 30_000
_COMMON_RANK: Final = 15
_STREAM: Final = 1_000_000
_FOLDERS: Final = 210
_FIRST_DAY: Final = 1_640_995_200  # 2022
_DAYS: Final = 1_400

_WHICH: Final = re.compile(rf"\b{COMMON}\b", re.IGNORECASE)


@dataclass(frozen=True)
class Vault:
    """A vault on the disk, and what is true of it."""

    root: Path
    notes: tuple[str, ...]
    """The paths of all notes."""
    size: int
    """The bytes of all notes."""
    rare: frozenset[str]
    """The notes with the rare word."""
    common: int
    """How many have the common word."""
    phrase: int
    """How many have the phrase."""
    tags: Counter[str]
    """How many notes have each tag."""

    @property
    def nested(self) -> set[str]:
        """All tags, and those that they are nested in."""
        return {"/".join(parts[:depth]) for parts in (tag.split("/") for tag in self.tags) for depth in _upto(parts)}


def generate(root: Path, notes: int, seed: int = 1) -> Vault:
    """Write a vault of so many notes."""
    made = _Maker(root, notes, random.Random(seed)).make()
    os.sync()  # What the disk has still to do must not be a part of any measurement.
    return made


class _Maker:
    def __init__(self, root: Path, notes: int, rng: random.Random) -> None:
        self._root, self._rng = root, rng
        self._stream, self._words = _language()
        self._folders = self._make_folders(min(_FOLDERS, 1 + notes // 10))
        self._tags = self._make_tags(min(160, 10 + notes // 20))
        self._names = [self._name(number) for number in range(notes)]
        self._attachments = [f"figure-{number:04}.png" for number in range(max(2, notes // 50))]
        rare = {notes // 7, notes // 2, notes * 5 // 6}
        self._planted = dict.fromkeys(rare, f" The {RARE} is back.")
        self._phrase = [number for number in range(notes) if number % 100 == 37]
        for number in self._phrase:
            self._planted[number] = self._planted.get(number, "") + f" So says the {PHRASE}."
        self._rare = rare

    def make(self) -> Vault:
        for folder in ("", ".obsidian", "Attachments", "Daily", *self._folders):
            (self._root / folder).mkdir(parents=True, exist_ok=True)
        paths: list[str] = []
        size = common = 0
        tags: Counter[str] = Counter()
        for number, name in enumerate(self._names):
            path = f"{'Daily' if name[0].isdigit() else self._rng.choice(self._folders)}/{name}.md"
            used = self._pick_tags()
            text = self._note(number, name, used)
            self._write(path, text.encode())
            paths.append(path)
            size += len(text.encode())
            common += _WHICH.search(text) is not None
            tags.update(used)
        self._others(paths)
        rare = frozenset(paths[number] for number in self._rare)
        return Vault(self._root, tuple(paths), size, rare, common, len(self._phrase), tags)

    def _write(self, path: str, data: bytes) -> None:
        file = f"{self._root}/{path}"
        with open(file, "wb", buffering=0) as out:  # noqa: PTH123 - there are many, and this is the quickest
            out.write(data)
        when = _FIRST_DAY + self._rng.randrange(_DAYS * 86_400)
        os.utime(file, (when, when))

    # Names

    def _make_folders(self, count: int) -> list[str]:
        folders: list[str] = []
        for _ in range(10):
            area = self._title(1)
            folders.append(area)
            for _ in range(4):
                topic = f"{area}/{self._title(2)}"
                folders += [topic, *(f"{topic}/{self._title(2)}" for _ in range(4))]
        return self._rng.sample(folders, count)

    def _make_tags(self, count: int) -> list[str]:
        tags: list[str] = []
        while len(tags) < count:
            topic = self._rng.choice(self._words)
            tags += [topic, f"{topic}/{self._rng.choice(self._words)}", f"{topic}/{self._rng.choice(self._words)}/now"]
        return tags

    def _name(self, number: int) -> str:
        if number % 20 == 3:
            day = number // 20
            return f"{2020 + day // 336}-{1 + day // 28 % 12:02}-{1 + day % 28:02}"
        return f"{self._title(2)} {number}"

    def _title(self, words: int) -> str:
        return " ".join(self._rng.choices(self._words, k=words)).capitalize()

    def _pick_tags(self) -> list[str]:
        # The first tags are the favourites.
        most = len(self._tags)
        return list(
            dict.fromkeys(self._tags[int(most * self._rng.random() ** 2)] for _ in range(self._rng.randrange(5)))
        )

    # Texts

    def _note(self, number: int, name: str, tags: list[str]) -> str:
        rng = self._rng
        length = min(3_000, max(30, int(rng.lognormvariate(5.63, 0.55))))
        listed, inline = tags[::2], tags[1::2]
        if rng.random() < 0.2:  # A note without properties.
            listed, inline = [], tags
            parts = [f"# {name}"]
        else:
            parts = [self._properties(listed), f"# {name}"]
        parts.append(self._prose(length // 3) + self._planted.get(number, ""))
        parts.append(f"## {self._title(2)}\n\n{self._prose(length // 3)} {self._links()}")
        if inline:
            parts.append(" ".join(f"#{tag}" for tag in inline))
        parts.append(self._tasks())
        if number % 8 == 0:
            parts.append(self._code())
        parts.append(f"### {self._title(3)}\n\n> {self._prose(length // 3)} {self._links()}")
        if number % 10 == 0:
            parts.append(f"![[{rng.choice(self._attachments)}|300]]")
        if number % 4 == 0:
            parts.append(f"{self._prose(12)} ^{number:x}b")
        return "\n\n".join(parts) + "\n"

    def _properties(self, tags: list[str]) -> str:
        rng = self._rng
        day = rng.randrange(_DAYS)
        lines = ["---", f"created: {2022 + day // 366}-{1 + day // 31 % 12:02}-{1 + day % 28:02}"]
        if tags:
            lines += (
                [f"tags: [{', '.join(tags)}]"] if rng.random() < 0.5 else ["tags:", *(f"  - {tag}" for tag in tags)]
            )
        lines.append(f"status: {rng.choice(('draft', 'active', 'done'))}")
        lines.append(f"rating: {rng.randrange(1, 6)}")
        if rng.random() < 0.2:
            lines.append(f"aliases:\n  - {self._title(2)}")
        return "\n".join([*lines, "---"])

    def _prose(self, count: int) -> str:
        # A stretch of it at random: to draw each word would take longer than all the rest.
        begin = self._rng.randrange(len(self._stream) - count)
        words = self._stream[begin : begin + count]
        for start in range(0, count, 13):
            words[start] = words[start].capitalize()
        for end in range(12, count, 13):
            words[end] += "."
        return " ".join(words) + "."

    def _links(self) -> str:
        rng = self._rng
        first, second, third = rng.choices(self._names, k=3)
        links = f"See [[{first}]] and [[{second}|{self._title(1)}]]."
        match rng.randrange(6):
            case 0:
                links += f" Or [this]({third.replace(' ', '%20')}.md)."
            case 1:
                links += f" Still to write: [[{self._title(3)}]]."
            case 2:
                links += f" [[{third}#{self._title(2)}]] https://example.com/{self._title(1)}#none"
            case _:
                pass
        return links

    def _tasks(self) -> str:
        rng = self._rng
        return "\n".join(f"- [{rng.choice(' x')}] {self._prose(5)}" for _ in range(rng.randrange(1, 5)))

    def _code(self) -> str:
        return f"```python\n# not {self._title(1)}\ndef {self._title(1).lower()}(): return '#nothing'\n```"

    def _others(self, paths: list[str]) -> None:
        for name in self._attachments:
            self._write(f"Attachments/{name}", b"\x89PNG\r\n\x1a\n" + self._rng.randbytes(2_000))
        for number in range(max(1, len(paths) // 1_000)):
            nodes = [
                {"id": str(i), "type": "file", "file": path, "x": 0, "y": 0, "width": 400, "height": 400}
                for i, path in enumerate(self._rng.choices(paths, k=20))
            ]
            nodes.append({"id": "t", "type": "text", "text": self._title(20), "x": 0, "y": 0, "width": 9, "height": 9})
            self._write(f"Board {number}.canvas", json.dumps({"nodes": nodes, "edges": []}).encode())
        self._write("Tasks.base", b"views:\n  - type: table\n    name: All\n")
        self._write(".obsidian/app.json", b"{}")
        self._write(".obsidian/daily-notes.json", b'{"folder": "Daily"}')


@cache
def _language() -> tuple[list[str], list[str]]:
    """A long stream of words, each as often in it as in a language; and all words but the common one."""
    rng = random.Random(0)
    vowels, consonants = "aeiou" * 20 + "äé", "bdfgklmnprstv"
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        syllables = range(rng.randrange(1, 5))
        words["".join(rng.choice(consonants) + rng.choice(vowels) for _ in syllables) + "n"] = None
    ranked = sorted(words, key=len)
    ranked[_COMMON_RANK - 1] = COMMON
    most = _STREAM / sum(1 / rank for rank in range(1, _VOCABULARY + 1))
    stream = [word for rank, word in enumerate(ranked, 1) for _ in range(max(1, round(most / rank)))]
    rng.shuffle(stream)
    return stream, [word for word in ranked if word != COMMON]


def _upto(parts: list[str]) -> range:
    return range(1, len(parts) + 1)

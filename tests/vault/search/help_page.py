"""Obsidian's help page on search, read literally: every file is read for every query, and nothing is indexed.

It shares no code with the server: it has its own parser of queries, and takes notes apart on its own. It knows only
what `generated` writes: simple properties, `#` headings, fenced code, list items and tasks.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

Test = Callable[[str], bool]
Places = list[str]


@dataclass
class Page:
    """A file of the vault."""

    path: str
    text: str | None  # None: neither a note nor a canvas.

    def __post_init__(self) -> None:
        self.name = self.path.rpartition("/")[2]
        self.title = self.name.rpartition(".")[0]
        self.lines = (self.text or "").split("\n")
        self.is_note = self.name.endswith(".md")
        self.head = self.lines.index("---", 1) + 1 if self.is_note and self.lines[0] == "---" else 0
        code, self.plain = False, [False] * self.head  # Whether a line is neither in the properties nor in code.
        for line in self.lines[self.head :]:
            fence = line.startswith("```")
            self.plain.append(self.is_note and not code and not fence)
            code = code != fence

    def properties(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in self.lines[1 : max(1, self.head - 1)]:
            name, _, value = line.partition(":")
            value = value.strip()
            found[name.lower()] = value[1:-1].split(", ") if value.startswith("[") else [value] if value else []
        return found

    def tags(self) -> set[str]:
        text = "\n".join(line for line, plain in zip(self.lines, self.plain, strict=True) if plain)
        found = {tag.lower() for tag in re.findall(r"(?<=\s)#([\w/]+)", f"\n{text}")}
        return found | {tag.lower() for tag in self.properties().get("tags", [])}

    def tasks(self, boxes: str) -> Places:
        found = (
            re.match(r"\s*- \[(.)\] (.*)", line) for line, plain in zip(self.lines, self.plain, strict=True) if plain
        )
        return [task[2] for task in found if task and task[1] in boxes]

    def headings(self) -> list[int]:
        lines = zip(self.lines, self.plain, strict=True)
        return [n for n, (line, plain) in enumerate(lines) if plain and re.match(r"#{1,6} ", line)]

    def sections(self) -> Places:
        return self._cut(self.headings())

    def blocks(self) -> Places:
        starts = [*self.headings(), *(n + 1 for n in self.headings())]
        code = False
        for n, line in enumerate(self.lines):
            if line.startswith("```"):
                starts.append(n + 1 if code else n)
                code = not code
            elif not code and (re.match(r"\s*- ", line) or (n and not self.lines[n - 1].strip())):
                starts.append(n)
        return self._cut(starts)

    def _cut(self, starts: list[int]) -> Places:
        return ["\n".join(self.lines[a:b]) for a, b in pairwise(sorted({0, *starts, len(self.lines)}))]


Rule = Callable[[Page], bool]
_TOKEN = re.compile(r'\s*("(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/|[()\]]|-(?=[^\s-])|\[(?!\[)|[a-z-]+:(?=\S)|[^\s()\]"]+)')
_PLACES: dict[str, Callable[[Page], Places]] = {
    "line:": lambda page: page.lines,
    "block:": Page.blocks,
    "section:": Page.sections,
    "task:": lambda page: page.tasks(" x"),
    "task-todo:": lambda page: page.tasks(" "),
    "task-done:": lambda page: page.tasks("x"),
}


class Reader:
    """Turns a query into a rule for a file. A `place` looks for terms: a function of a file and a test."""

    def __init__(self, query: str) -> None:
        self.tokens = _TOKEN.findall(query)
        assert "".join(self.tokens).replace(" ", "") == query.replace(" ", ""), query

    def next(self) -> str:
        return self.tokens.pop(0)

    def group(self, place: "Callable[[Page, Test], bool]", case: bool) -> Rule:
        """`a b OR c`."""
        either: list[list[Rule]] = [[]]
        while self.tokens and self.tokens[0] not in (")", "]"):
            if self.tokens[0] == "OR":
                self.next()
                either.append([])
            else:
                either[-1].append(self.term(place, case))
        return lambda page: any(all(rule(page) for rule in rules) for rules in either)

    def nested(self, place: "Callable[[Page, Test], bool]", case: bool) -> Rule:
        if self.tokens[0] != "(":
            return self.term(place, case)
        self.next()
        rule = self.group(place, case)
        assert self.next() == ")"
        return rule

    def term(self, place: "Callable[[Page, Test], bool]", case: bool) -> Rule:  # noqa: PLR0911 - one for each kind
        token = self.tokens[0]
        if token == "(":
            return self.nested(place, case)
        self.next()
        if token == "-":
            rule = self.nested(place, case)
            return lambda page: not rule(page)
        if token == "[":
            return self.property(case)
        if token in ("match-case:", "ignore-case:"):
            return self.nested(place, token == "match-case:")
        if token == "content:":
            return self.nested(lambda page, test: page.text is not None and test(page.text), case)
        if token in ("file:", "path:"):
            return self.nested(lambda page, test: test(page.name if token == "file:" else page.path), case)
        if token == "tag:":
            wanted = self.next().removeprefix("#").lower()
            return lambda page: any(tag == wanted or tag.startswith(f"{wanted}/") for tag in page.tags())
        if token in _PLACES:
            return self.somewhere(_PLACES[token], case)
        test = tested(token, case)
        return lambda page: place(page, test)

    def somewhere(self, places: Callable[[Page], Places], case: bool) -> Rule:
        """All of the argument in one line, block, section or task, which is made a file of its own."""
        rule = self.nested(lambda page, test: test(page.text or ""), case)
        return lambda page: page.text is not None and any(rule(Page("", place)) for place in places(page))

    def property(self, case: bool) -> Rule:
        name, colon, rest = self.next().partition(":")
        if rest:
            self.tokens.insert(0, rest)
        if not colon:
            assert self.next() == "]"
            return lambda page: name in page.properties()
        if self.tokens[0] == "null":
            self.next()
            rule: Rule = lambda page: not page.properties()[name]  # noqa: E731
        elif found := re.fullmatch("([<>])([0-9]+)", self.tokens[0]):
            self.next()
            rule = lambda page: any(  # noqa: E731
                value.isdigit() and (int(value) < int(found[2]) if found[1] == "<" else int(value) > int(found[2]))
                for value in page.properties()[name]
            )
        else:
            exact = self.tokens[0].startswith('"')
            whole = self.tokens[0][1:-1].lower()
            rule = self.group(
                lambda page, test: any(
                    (value.lower() == whole if exact else test(value)) for value in page.properties()[name]
                ),
                case,
            )
        assert self.next() == "]"
        return lambda page: name in page.properties() and rule(page)


def tested(token: str, case: bool) -> Test:
    if token.startswith("/"):
        pattern = re.compile(token[1:-1], re.MULTILINE | (0 if case else re.IGNORECASE))
        return lambda text: pattern.search(text) is not None
    wanted = re.sub(r'\\(["\\])', r"\1", token[1:-1]) if token.startswith('"') else token
    return (lambda text: wanted in text) if case else (lambda text: wanted.lower() in text.lower())


def read_literally(pages: list[Page], query: str) -> set[str]:
    """The paths that the page promises."""
    rule = Reader(query).group(
        lambda page, test: page.text is not None and (test(page.title) or test(page.text)), case=False
    )
    everything = re.search(r"(?<![a-z])(file|path):", query) is not None
    return {page.path for page in pages if (everything or page.text is not None) and rule(page)}


def pages_in(root: Path) -> list[Page]:
    found: list[Page] = []
    for place in sorted(root.rglob("*.*")):
        text = place.read_text("utf-8") if place.suffix in (".md", ".canvas") else None
        if place.suffix == ".canvas":
            text = "\n\n".join(node["text"] for node in json.loads(text or "")["nodes"])
        found.append(Page(place.relative_to(root).as_posix(), text))
    return found


WORDS = """Vault vault default Sync sync resync Meeting meeting work network personal Note notes keynote Ärger café CAFE
naïve 日本語 知识管理 ノート привет Мир ΑΒΓ łódź C++ foo-bar me@here.org snake_case 2022-09-01 10:30 don't
“quoted” end. a I x, hello, happy cat HappyCat flour mix dog [[Vault]] [[My]] `code` **bold**
https://obsidian.md/x?y=1 100% $5 é e x² İzmir
Straße""".split()  # noqa: SIM905 - it is shorter so
FOLDERS = ["", "Plugins/", "Obsidian Sync/", "Daily notes/2022/", "ノート/"]
TAGS = ["work", "Work/now", "日記", "x_1"]


def generated(  # noqa: C901 - a case for each kind of text
    root: Path, random: Random, notes: int = 170, attachments: int = 80, canvases: int = 6
) -> None:
    """Writes a vault of the size of Obsidian's own help."""

    def words(most: int) -> str:
        return " ".join(random.choices(WORDS, k=random.randint(1, most)))

    def part() -> str:
        match random.randint(0, 7):
            case 0:
                return f"{'#' * random.randint(1, 3)} {words(4)}"
            case 1:
                return "\n".join(f"- [{random.choice(' x')}] {words(5)}" for _ in range(random.randint(1, 3)))
            case 2:
                return f"```\n{words(5)} #{random.choice(TAGS)}\n\n- [ ] {words(3)}\n```"
            case 3:
                return "\n".join(f"- {words(5)}" for _ in range(random.randint(1, 3)))
            case 4:
                return f"{words(3)} #{random.choice(TAGS)} {words(2)}"
            case _:
                return "\n".join(words(9) for _ in range(random.randint(1, 3)))

    def head() -> str:
        keys = random.sample(["status", "aliases", "rating", "tags", "empty"], random.randint(0, 4))
        value = {
            "status": random.choice(["Draft", "Published", "in progress"]),
            "aliases": f"[{random.choice(['Name', 'My Name', 'Other'])}, Pomme]",
            "rating": str(random.randint(1, 20)),
            "tags": f"[{random.choice(TAGS)}]",
            "empty": "",
        }
        return "---\n" + "\n".join(f"{key}: {value[key]}".rstrip() for key in keys) + "\n---\n\n" if keys else ""

    for n in range(notes + canvases + attachments):
        name = re.sub(r"[^\w .-]", "", words(2)).strip(" .") or "x"
        place = root / random.choice(FOLDERS) / f"{name} {n}"
        place.parent.mkdir(parents=True, exist_ok=True)
        if n < notes:
            text = head() + "\n\n".join(part() for _ in range(random.randint(1, 6))) + "\n"
            place.with_name(f"{place.name}.md").write_text(text, "utf-8")
        elif n < notes + canvases:
            nodes = [{"id": str(n), "type": "text", "text": words(9)} for n in range(3)]
            place.with_name(f"{place.name}.canvas").write_text(json.dumps({"nodes": nodes}), "utf-8")
        else:
            place.with_name(f"{place.name}{random.choice(['.png', '.jpg', '.pdf', '.base'])}").write_text(
                "sync vault", "utf-8"
            )


def asked(  # noqa: C901 - a case for each kind of term
    random: Random, pages: list[Page], depth: int = 2
) -> str:
    """A query for something that is mostly there."""
    page = random.choice([page for page in pages if page.text])

    def piece() -> str:
        word = random.choice([*(page.text or "").split(), *WORDS, page.title.split()[0]])
        start = random.randrange(len(word))
        part = random.choice([word, word[start : start + random.randint(1, 6)], word.upper()])
        if re.search(r'[\s()\]\["\\:]|^[-/#<>]|^(OR|AND|NOT|null)$', part):
            return '"' + re.sub(r'["\\]', r"\\\g<0>", part) + '"'
        return part

    def phrase() -> str:
        text = (page.text or "").replace("\n", " ")
        start = random.randrange(len(text))
        found = text[start : start + random.randint(2, 15)].strip() or "x"
        return '"' + re.sub(r'["\\]', r"\\\g<0>", found) + '"'

    def regex() -> str:
        return random.choice(
            [r"/\d{4}-\d{2}/", "/[vs]ync?/", "/^- .*o/", r"/\bnotes?\b/", "/cat|dog/", "/ault \\w/", "/本/"]
        )

    def plain() -> str:
        return random.choice([piece, piece, piece, phrase, regex])()

    def inner() -> str:
        choices = ["{a}", "({a} {b})", "({a} OR {b})", "({a} -{b})", "-{a}", "(match-case:{a} {b})"]
        return random.choice(choices).format(a=plain(), b=plain())

    def one(depth: int) -> str:  # noqa: PLR0911 - one for each kind
        kind = random.randint(0, 13 if depth else 8)
        if kind < 4:
            return plain()
        if kind == 4:
            return (
                random.choice(["line:", "block:", "section:", "content:", "task:", "task-todo:", "task-done:"])
                + inner()
            )
        if kind == 5:
            name = random.choice([page.name, page.path, ".png", ".md", "sync", "Plugins/"])
            start = random.randrange(max(1, len(name) - 3))
            return random.choice(["file:", "path:"]) + f'"{name[start : start + 8].strip() or "x"}"'
        if kind == 6:
            return random.choice(["tag:#work", "tag:Work/Now", "tag:#wor", "tag:日記", "tag:#x_1"])
        if kind == 7:
            return random.choice(
                """[status]|[status:draft]|[status:Draft OR Published]|[aliases:"Name"]|[aliases:name]|[rating:<5]
[rating:>12]|[empty:null]|[status:null]|[status:/^in/]|[status:-draft]""".replace("\n", "|").split("|")
            )
        if kind == 8:
            return random.choice(["match-case:", "ignore-case:"]) + inner()
        if kind == 9:
            return "-" + random.choice([plain(), f"({one(depth - 1)} {one(depth - 1)})"])
        joint = random.choice([" ", " ", " OR "])
        return f"({joint.join(one(depth - 1) for _ in range(random.randint(2, 3)))})"

    return " ".join(one(depth) for _ in range(random.randint(1, 2)))

r"""The language of searches: Obsidian's, and a few words more. A text becomes a tree, or `BadQuery` says why not.

| written | finds |
|---|---|
| `apple pie` | both words, in a note or in its name; a word is found from its beginning (`app` finds *Apple*) |
| `"apple pie"` | whole words that follow each other; `\"` is the character itself |
| `apple OR pie`, `apple -pie`, `(a OR b) c` | either; one without the other; groups. `AND`, `NOT` are understood too |
| `C++`, `foo-bar`, `me@here.org`, `[[A note]]` | exactly these characters, from the beginning of a word |
| `/\d{4}-\d\d/` | a regular expression as in JavaScript; `/…/s` lets `.` match line ends |
| `tag:#work`, `#work` | the tag or one below it (`#work/now`), never in code |
| `file:plan`, `path:"Projects/A"` | part of the file's name; part of its path |
| `content:word` | in the text, not in the name |
| `line:(a b)`, `block:(a b)`, `section:(a b)` | all in one line; one paragraph or list item; between two headings |
| `task:call`, `task-todo:call`, `task-done:""` | in a task; in one that is open; in one that is done (`""`: any) |
| `match-case:Pie`, `ignore-case:pie` | capitals and accents count; they do not (the default) |
| `[status]`, `[status:done]`, `["due date":2024]` | notes with the property; with such a value |
| `[status:(a OR b)]`, `[rating:>3]`, `[due:<2024-05-01]`, `[status:null]` | either value; numbers; dates; no value |
| `modified:today`, `modified:7d`, `modified:>2024-05` | on that day; in the last 7 days (h, d, w, m, y); after it |
| `size:>10kb` | bigger than that |
| `in:Projects/A` | in the folder or below it |
| `kind:canvas` | note, canvas, base or attachment |
| `has:task` | also todo, done, link, embed, attachment, tag, property, alias, heading, block, problem |

Capitals and accents do not count. Where words are written without spaces (Chinese, Japanese, Thai …) a word is found
anywhere. A backslash makes an ordinary character of one that would mean something: `\-a`, `\#a`, `a\:b`.
"""

import difflib
import re
from datetime import UTC, datetime
from typing import cast, get_args

from tidings.vault.search import query_facts
from tidings.vault.search.query_reader import ANYWHERE, BadQuery, Reader
from tidings.vault.search.query_tree import (
    And,
    Case,
    Compared,
    Empty,
    Fact,
    FactName,
    Not,
    Or,
    Phrase,
    Property,
    Query,
    Regex,
    Scope,
    Tag,
    Within,
    Word,
    depth,
)
from tidings.vault.text.regexes import BadPattern, compiled

_SCOPES = get_args(Scope)
_FACTS = get_args(FactName)
_OPERATORS = (*_SCOPES, *_FACTS, "tag", "match-case", "ignore-case")
_OTHER_NAMES = {"title": "file", "name": "file", "filename": "file", "folder": "in", "type": "kind", "date": "modified"}
_MOST_CHARACTERS = 10_000
_MOST_TERMS = 100
_MOST_NESTED = 20
_MOST_OPEN = 60  # of texts: more than a tree so nested can need when it is written out

_OPERATOR = re.compile(r"([A-Za-z][A-Za-z-]*):")
_VALUE = re.compile(r'"[^"]{1,40}"|\([^()]{1,40}\)|[^\s()\[\]"]{1,40}(?=[\s)]|\Z)')
_REGEX = re.compile(r"/((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+)/([a-z]*)")
_TAG = re.compile(r"(?=[^\s]*[^\W\d])[\w/-]+|(?=[^\s]*-)[\w/-]+")


def parse_query(text: str) -> Query:
    """Read a query.

    Raises:
        BadQuery: It is empty, or something in it cannot be understood.
    """
    if not text.strip():
        raise BadQuery(1, "The query is empty", 'write a word, or "" for all files')
    if len(text) > _MOST_CHARACTERS:
        raise BadQuery(_MOST_CHARACTERS, f"The query has more than {_MOST_CHARACTERS:,} characters", "search for less")
    if stray := re.search("[\ud800-\udfff\0]", text):
        raise BadQuery(stray.start() + 1, f"The character at {stray.start() + 1} is not one of a text", "leave it out")
    parser = _Parser(text)
    query = parser.alternatives()
    if parser.at < len(text):  # All but this is a term.
        raise parser.bad("The parenthesis at {} closes nothing", "leave it out, or put it in quotation marks")
    if depth(query) > _MOST_NESTED:
        raise BadQuery(1, f"The query is nested more than {_MOST_NESTED} deep", "ask for less at once")
    return query


class _Parser(Reader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.open = 0
        self.terms = 0

    def alternatives(self) -> Query:
        """`a b OR c`: what is side by side belongs together more closely."""
        parts = [self.conjunction()]
        while self.keyword("OR"):
            parts.append(self.conjunction())
        return _flat(Or, parts)

    def conjunction(self) -> Query:
        parts: list[Query] = []
        while not self.ended() and not self.peek("OR"):
            if self.keyword("AND"):
                if not parts or self.ended() or self.peek("OR"):
                    raise self.bad(
                        "The AND before {} has nothing on one side", 'write a term there, or "AND" for the word'
                    )
                continue
            parts.append(self.unit())
        if not parts:
            where = "OR" if self.peek("OR") or self.text[: self.at].rstrip().endswith("OR") else "parenthesis"
            raise self.bad(
                f"There is nothing to search for at {{}}, beside the {where}",
                f'write a term there, or "{where}" for the text',
            )
        return _flat(And, parts)

    def unit(self) -> Query:
        self.open += 1
        if self.open > _MOST_OPEN:
            raise self.bad("At {} too much is nested", "ask for less at once")
        query = self._negated() if self.text[self.at] == "-" or self.peek("NOT") else self._positive()
        self.open -= 1
        return query

    def _negated(self) -> Query:
        start = self.at
        if not self.keyword("NOT"):
            self.at += 1
        elif self.ended():
            raise self.bad("The NOT at {} has nothing after it", 'write a term there, or "NOT" for the word', start)
        if self.at == len(self.text) or self.text[self.at].isspace() or self.text[self.at] == ")":
            raise self.bad(
                "The minus at {} has nothing after it",
                r"write it directly before a term, or \- for the character",
                start,
            )
        if self.peek("OR", "AND"):
            raise self.bad("There is a connecting word at {} where a term must be", "put it in quotation marks")
        return Not(self.unit())

    def _positive(self) -> Query:
        if self.text[self.at] == "(":
            return self._group()
        self.terms += 1
        if self.terms > _MOST_TERMS:
            raise self.bad(f"The query has more than {_MOST_TERMS} terms", "search for less at once")
        match self.text[self.at]:
            case _ if self.inside == "tag":
                return self._tag(self.at)
            case '"':
                return Phrase(self.string())
            case "/":
                return self._regex()
            case "[":
                return self._link() or self._property()
            case _:
                return self._compared() or self._operator() or self._plain()

    def _link(self) -> Phrase | None:
        """`[[A note]]`: its characters, so that nobody has to put a link in quotation marks."""
        start, end = self.at, self.text.find("]]", self.at)
        if not self.text.startswith("[[", start) or end < 0:
            return None
        self.at = end + 2
        return Phrase(self.text[start : self.at])

    def _plain(self) -> Query:
        start = self.at
        word = self.word()
        if self.inside == "[" and word == "null":
            return Empty()
        if self.text[start] == "#" and self._tags_allowed() and _TAG.fullmatch(word, 1):
            return Tag(word[1:].strip("/"))
        return Word(word)

    def _group(self) -> Query:
        start = self.at
        self.at += 1
        query = self.alternatives()
        if not self.text.startswith(")", self.at):
            raise self.bad(
                "The parenthesis at {} is never closed", "add one at the end, or put it in quotation marks", start
            )
        self.at += 1
        return query

    def _regex(self) -> Regex:
        start = self.at
        found = _REGEX.match(self.text, start)
        if found is None:
            raise self.bad(
                "The slash at {} begins a regular expression that is never closed",
                r"add a slash at its end, or write \/ for the character itself",
            )
        self.at = found.end()
        if set(found[2]) - set("gimsuvy"):
            cure = "leave them out, or put the text in quotation marks if it is a path"
            raise self.bad("The letters after the regular expression at {} mean nothing", cure, start)
        dotall = "s" in found[2]
        try:
            compiled(found[1], match_case=False, dotall=dotall)
        except BadPattern as problem:
            cure = r"correct it, or write \/ if you search for a slash"
            raise self.bad(
                f"The regular expression at {{}} is not one that can be run: {problem}", cure, start
            ) from problem
        return Regex(found[1], dotall)

    def _operator(self) -> Query | None:
        found, start = _OPERATOR.match(self.text, self.at), self.at
        if found is None:
            return None
        name = found[1].lower()
        after = self.text[found.end() : found.end() + 1]
        if name not in _OPERATORS:
            if found[1] != name or not after or after.isspace() or after in ":/)":
                return None  # `Note:`, `https://…`, `std::vector`
            raise self._unknown(name)
        self.at = found.end()
        if not after or after.isspace() or after in ")]":
            raise self.bad(
                f"The {name}: at {{}} has nothing after it",
                rf"write it directly after, or {name}\: for the text",
                start,
            )
        if name in _FACTS:
            return self._fact(cast("FactName", name), start)
        if name == "tag":
            return self._tag(start)
        if name in {"match-case", "ignore-case"}:
            return Case(name == "match-case", self._argument(self.inside))
        self._refuse_inside(name, start)
        return Within(cast("Scope", name), self._argument(name))

    def _unknown(self, name: str) -> BadQuery:
        near = [_OTHER_NAMES[name]] if name in _OTHER_NAMES else difflib.get_close_matches(name, _OPERATORS, 1, 0.65)
        cures = [f"{each}:" for each in near]
        if self.inside == ANYWHERE:
            value = _VALUE.match(self.text, self.at + len(name) + 1)
            cures.append(f"[{name}:{value[0] if value else '…'}] if it is a property")
        cures.append(rf"{name}\: if the text itself is searched for")
        return self.bad(f"There is no operator {name}: (at {{}})", f"write {', or '.join(cures)}")

    def _argument(self, inside: str) -> Query:
        if self.peek("OR", "AND"):
            raise self.bad("There is a connecting word at {} where a term must be", "put it in quotation marks")
        outer, self.inside = self.inside, inside
        query = self.unit()
        self.inside = outer
        return query

    def _tag(self, start: int) -> Query:
        if not self._tags_allowed():
            self._refuse_inside("tag", start)
        if self.text[self.at] == "(":
            return self._argument("tag")
        name = (self.value()).removeprefix("#").strip("/")
        if not name.strip():
            raise self.bad("The tag: at {} names no tag", "write tag:#name", start)
        return Tag(name)

    def _fact(self, name: FactName, start: int) -> Fact:
        self._refuse_inside(name, start)
        text = self.value()
        try:
            match name:
                case "modified":
                    query_facts.times(text, datetime.now(UTC))
                case "size":
                    query_facts.sizes(text)
                case "has":
                    text = query_facts.one_of(text, query_facts.HAS)
                case "kind":
                    text = query_facts.one_of(text, query_facts.KINDS)
                case "in":
                    text = text.strip("/")
        except ValueError as problem:
            cause, _, cure = str(problem).partition("; ")
            raise self.bad(f"After {name}: at {{}}, {cause}", cure, start) from problem
        return Fact(name, text)

    def _property(self) -> Query:
        start = self.at
        self._refuse_inside("[property]", start)
        self.at += 1
        key = self.key()
        unclosed = self.bad(
            "The bracket at {} is never closed", r"write [key] or [key:value], or \[ for the character itself", start
        )
        if not key.strip():
            raise self.bad("The brackets at {} name no property", r"write [key], or \[ for the character itself", start)
        value = None
        if self.text.startswith(":", self.at):
            self.at += 1
            outer, self.inside = self.inside, "["
            value = self.alternatives()
            self.inside = outer
        if not self.text.startswith("]", self.at):
            raise unclosed
        self.at += 1
        return Property(key.strip(), value)

    def _compared(self) -> Compared | None:
        start = self.at
        if self.inside != "[" or self.text[start] not in "<>":
            return None
        operator = (
            "<="
            if self.text.startswith("<=", start)
            else ">="
            if self.text.startswith(">=", start)
            else self.text[start]
        )
        self.at += len(operator)
        text = self.value()
        if not text:
            raise self.bad(
                f"The {operator} at {{}} compares with nothing", "write a number or a date directly after it", start
            )
        return Compared(operator, text)

    def _tags_allowed(self) -> bool:
        return self.inside not in {"file", "path", "["}

    def _refuse_inside(self, name: str, start: int) -> None:
        if self.inside != ANYWHERE:
            outer = "the brackets of a property" if self.inside == "[" else f"{self.inside}:"
            raise self.bad(f"{name.removesuffix(':')} (at {{}}) cannot stand inside {outer}", "write it beside", start)


def _flat(kind: type[And] | type[Or], parts: list[Query]) -> Query:
    flat: list[Query] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    return flat[0] if len(flat) == 1 else kind(tuple(flat))

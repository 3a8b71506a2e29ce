"""An index of notes that a test writes down, and what is found in it."""

import re
from collections.abc import Mapping
from pathlib import Path

from tidings.vault.files.paths import Vault
from tidings.vault.index.index import Index
from tidings.vault.index.queries import Queries
from tidings.vault.index.read_file import make_entry
from tidings.vault.notes.model import IndexEntry, Kind, Stamp
from tidings.vault.notes.parse import parse
from tidings.vault.search import query as tree
from tidings.vault.search.search import search

KINDS: Mapping[str, Kind] = {"md": "note", "canvas": "canvas", "base": "base"}


def entry(path: str, text: str, *, mtime: int = 0) -> IndexEntry:
    """What the index keeps of a file with this text."""
    name, _, extension = path.rpartition("/")[2].rpartition(".")
    kind = KINDS.get(extension, "attachment")
    note = parse(text, name) if kind == "note" else None
    return make_entry(
        path, kind, Stamp(len(text.encode()), mtime, mtime, 0), version=str(hash(text)), text=text, note=note
    )


def indexed(root: Path, notes: Mapping[str, str]) -> Index:
    """An index in memory; each file was modified a day after the one before, from 2024-05-01 on."""
    index = Index(Vault([root]), memory=True)
    day = 86_400 * 10**9
    first = 1_714_521_600 * 10**9 + day // 2
    index.apply([entry(path, text, mtime=first + n * day) for n, (path, text) in enumerate(notes.items())])
    return index


def found(queries: Queries, query: str) -> set[str]:
    """The paths that a query finds, all of them."""
    result = search(queries, query, limit=10_000)
    assert result.problem is None
    assert result.exact
    assert result.total == len(result.hits)
    return {hit.path for hit in result.hits}


def written(query: tree.Query) -> str:  # noqa: C901, PLR0911, PLR0912 - one line for each kind
    """A query that parses to an equal tree."""
    match query:
        case tree.Word(text):
            escaped = re.sub(r'[\\"():\]]', r"\\\g<0>", text)
            return f"\\{escaped}" if escaped[0] in "-#/[<>" else escaped
        case tree.Phrase(text):
            return '"' + re.sub(r'[\\"]', r"\\\g<0>", text) + '"'
        case tree.Regex(pattern, dotall):
            return f"/{pattern}/{'s' if dotall else ''}"
        case tree.TagTerm(name):
            return f"tag:{_quoted('#' + name)}"
        case tree.And(parts):
            return " ".join(f"({written(part)})" if isinstance(part, tree.Or) else written(part) for part in parts)
        case tree.Or(parts):
            return " OR ".join(map(written, parts))
        case tree.Not(part):
            return f"-{_grouped(part)}"
        case tree.Within(scope, part):
            return f"{scope}:{_grouped(part)}"
        case tree.Case(match, part):
            return f"{'match' if match else 'ignore'}-case:{_grouped(part)}"
        case tree.Compared(operator, text):
            return f"{operator}{_quoted(text)}"
        case tree.Empty():
            return "null"
        case tree.Property(key, value):
            name = _quoted(key) if isinstance(key, str) else f"({written(key)})" if _several(key) else written(key)
            return f"[{name}]" if value is None else f"[{name}:{written(value)}]"
        case tree.Fact(name, text):
            return f"{name}:{_quoted(text)}"


def _several(query: tree.Query) -> bool:
    return not isinstance(query, tree.Regex)


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[<>]?=?#?[\w/.+-]+", text) else written(tree.Phrase(text))


def _grouped(query: tree.Query) -> str:
    nested = isinstance(query, tree.And | tree.Or | tree.Within | tree.Case | tree.Not)
    return f"({written(query)})" if nested else written(query)

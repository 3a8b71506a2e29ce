"""Computes the rows of a base's views, and keeps them: after an edit, those of the changed files are computed again.

Those of other files, too, if the evaluation shows that they depend on more than their own file: on the names in the
vault (links), or on the content of other files (backlinks, `file()`). Every evaluation has a number of steps, in
proportion to the vault. They are counted, and no time is measured, so that a base gives the same result every time.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache, partial
from typing import Any, Final, NamedTuple

from tidings.vault.bases import values
from tidings.vault.bases.base import Base, BaseView, Formula, ViewColumn
from tidings.vault.bases.functions import SUMMARIES
from tidings.vault.bases.values import FormulaDate, FormulaFailed, FormulaLink, text_of
from tidings.vault.files.paths import Vault
from tidings.vault.index import graph
from tidings.vault.index.queries import Queries
from tidings.vault.notes.model import key

_STEPS, _STEPS_EACH, _CELL_STEPS = 1_000_000, 200, 100_000  # For all; more for each file; the most of one cell.
_KEPT: Final = 16  # Bases whose rows are kept.
_OWN, _NAMES, _ALL = range(3)  # A row depends on its file, on the names of all files, on everything.
_FILES: Final = "SELECT path, id, size, mtime, hash FROM files WHERE path >= ? AND path < ? ORDER BY path"
_TAGS: Final = "SELECT shown, min(n) AS n FROM tags WHERE file = ? GROUP BY key ORDER BY n"
_LINKS: Final = "SELECT target || subpath, shown, embed, target, kind FROM links WHERE file = ? ORDER BY n"

Stamp = tuple[int, int, int, str | None]
"""The id, size, time and hash of a file."""
Stamps = dict[str, Stamp]


class OutOfSteps(Exception):
    """A base takes too many steps."""


class FailedCell(NamedTuple):
    """The value of a cell that cannot be computed."""

    why: str


class BaseRow(NamedTuple):
    """A file in a view."""

    path: str
    cells: list[Any]
    sort: list[Any]
    group: Any
    summed: list[Any]
    digest: bytes


class ViewRows(NamedTuple):
    """The result of a view."""

    base: Base
    view: BaseView
    rows: list[BaseRow]  # Sorted and limited; one group after the other.
    total: int  # Without the limit.
    summaries: list[tuple[str, str, Any]]  # The column, the name, the value.
    problems: list[str]


class BaseFile:
    """A file, as formulas see it. Its paths are those within its vault."""

    def __init__(self, run: "BaseRun", path: str, stamp: Stamp) -> None:
        self._run, self.full = run, path
        self._id, self.size, self.modified, _ = stamp
        self.path = path[len(run.prefix) :]
        self.folder, _, name = self.path.rpartition("/")
        self.basename, _, self.ext = name.rpartition(".") if "." in name[1:] else (name, "", "")
        self.name = values.LooseText(name) if self.ext.lower() == "md" else name

    @property
    def file(self) -> "BaseFile":
        return self

    @cached_property
    def properties(self) -> dict[str, Any]:
        row = self._run.ask("SELECT properties FROM files WHERE id = ?", (self._id,)).fetchone()
        return values.from_property(json.loads(row[0])) if row else {}

    @cached_property
    def _folded(self) -> dict[str, Any]:
        return {key(name): value for name, value in self.properties.items()}

    def value_of(self, name: str) -> Any:
        return self._folded.get(key(name)) if (found := self.properties.get(name)) is None else found

    def has_property(self, name: str) -> bool:
        return key(name) in self._folded

    @cached_property
    def tags(self) -> list[values.LooseText]:
        return [values.LooseText(f"#{shown}") for shown, _ in self._run.ask(_TAGS, (self._id,))]

    def has_tag(self, wanted: Sequence[str]) -> bool:
        own = [f"{key(tag)}/" for tag in self.tags]
        return any(tag.startswith(f"#{key(each).lstrip('#').strip('/')}/") for tag in own for each in wanted)

    @cached_property
    def _links(self) -> list[tuple[FormulaLink, int, str]]:
        rows = self._run.ask(_LINKS, (self._id,)).fetchall()
        return [
            (FormulaLink(written, shown), embed, self._run.target(target, self.full, kind) or "")
            for written, shown, embed, target, kind in rows
            if target
        ]

    @property
    def links(self) -> list[FormulaLink]:
        return [link for link, embed, _ in self._links if not embed]

    @property
    def embeds(self) -> list[FormulaLink]:
        return [link for link, embed, _ in self._links if embed]

    @cached_property
    def targets(self) -> set[str]:
        return {path for _, _, path in self._links}

    @cached_property
    def backlinks(self) -> list[FormulaLink]:
        self._run.reach = _ALL
        sources = dict.fromkeys(link.source for link in graph.backlinks(self._run.queries, self.full))
        self._run.spend(20 + len(sources))
        return [FormulaLink(path[len(self._run.prefix) :].removesuffix(".md")) for path in sources]

    @property
    def mtime(self) -> FormulaDate:
        return FormulaDate(datetime.fromtimestamp(self.modified // 1_000_000 / 1000))  # noqa: DTZ006 - local

    @cached_property
    def ctime(self) -> FormulaDate:
        try:
            status = self._run.vault.locate(self.full).stat()
        except (OSError, ValueError):
            return self.mtime
        # Not every system tells when a file was created.
        born: float = getattr(status, "st_birthtime", min(status.st_mtime, status.st_ctime))
        return FormulaDate(datetime.fromtimestamp(int(born * 1000) / 1000))  # noqa: DTZ006 - local


class BaseRun:
    """One evaluation of a base, for the files whose paths begin with `prefix`. `this` is the file that shows it."""

    def __init__(
        self, queries: Queries, vault: Vault, base: Base, *, prefix: str, now: datetime, this: str, stamps: Stamps
    ) -> None:
        self.queries, self.vault, self.base, self.prefix, self.now = queries, vault, base, prefix, now
        self.ask = queries.connection.execute
        self.reach = _OWN
        self.this = BaseFile(self, this, stamps.get(this, (-1, 0, 0, None)))
        self._names = graph.LinkNames(queries, prefix.rstrip("/"))
        self._source = this
        self._left = _STEPS + _STEPS_EACH * len(stamps)
        self._least = 0  # The steps that the current cell has to leave.

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise OutOfSteps
        if self._left < self._least:
            raise FormulaFailed("it takes too many steps")

    def resolve(self, link: FormulaLink) -> str | None:
        return self.target(link.target.partition("#")[0], self._source, "wiki")

    def target(self, target: str, source: str, kind: str) -> str | None:
        self.spend(3)
        self.reach = max(self.reach, _NAMES)
        found = self._names.resolve(target, source, kind)
        return None if found is None else found[len(self.prefix) :]

    def file(self, path: str | None) -> BaseFile | None:
        self.reach = _ALL
        row = None if path is None else self.queries.file(self.prefix + path)
        return BaseFile(self, row.path, (row.id, row.size, row.mtime, row.hash)) if row else None

    def rows(self, file: BaseFile) -> tuple[list[BaseRow | None], list[tuple[str, str]]]:
        """Returns the row of a file in each view, None if its filters leave it out; and filters that failed."""
        self.spend(5)
        self._source = file.full
        scope = RowScope(self, file, {}, {}, [])
        return [self._row(scope, view) for view in self.base.views], scope.failures

    def _row(self, scope: "RowScope", view: BaseView) -> BaseRow | None:
        if view.condition is None or not view.condition(scope):
            return None
        cells = [scope.cell(column) for column in view.columns]
        sort = [_sort_key(scope.cell(column)) for column, _ in view.sort]
        group = scope.cell(view.group[0]) if view.group else None
        summed = [scope.cell(column) for column, _, _ in view.summaries]
        # What depends on the time of day is not compared. So it may have changed with each edit.
        edited = scope.file.modified if self.base.uses - {"today"} else 0
        said = "\x1f".join([scope.file.full, str(edited), *map(cell_text, (*cells, group, *summed))])
        digest = hashlib.blake2b(said.encode(errors="replace"), digest_size=12).digest()
        return BaseRow(scope.file.full, cells, sort, group, summed, digest)

    def attempt(self, compute: Callable[[], Any]) -> Any:
        before, self._least = self._least, self._least or max(0, self._left - _CELL_STEPS)
        try:
            return compute()
        except FormulaFailed as error:
            return FailedCell(str(error))
        except RecursionError:
            return FailedCell("it is too deeply nested")
        except (ArithmeticError, ValueError, TypeError, AttributeError, OSError) as error:
            return FailedCell(f"it cannot be computed ({error})")
        finally:
            self._least = before


class RowScope(NamedTuple):
    """A file for which formulas are evaluated, and the variables of inner expressions."""

    run: BaseRun
    file: BaseFile
    names: dict[str, Any]
    formulas: dict[str, Any]  # The values that are known.
    failures: list[tuple[str, str]]  # Filters, and why they failed.

    def named(self, name: str) -> Any:
        return self.names[name] if name in self.names else self.file.value_of(name)

    def within(self, **names: Any) -> "RowScope":
        self.run.spend(1)
        return self._replace(names=self.names | names)

    def formula(self, name: str) -> Any:
        found = self.run.base.formulas.get(name)
        if not isinstance(found, Formula):
            raise FormulaFailed(f"{_formula(name)}: {'it cannot be read' if found else 'there is none'}")
        if name not in self.formulas:
            self.formulas[name] = FailedCell("it refers to itself")
            self.formulas[name] = self.run.attempt(lambda: found.evaluate(self._replace(names={})))
        value = self.formulas[name]
        if isinstance(value, FailedCell):
            raise FormulaFailed(value.why if value.why.startswith("formula ") else f"{_formula(name)}: {value.why}")
        return value

    def cell(self, column: ViewColumn) -> Any:
        if (formula := column.formula) is None:
            return FailedCell(column.problem)
        value = self.run.attempt(lambda: formula.evaluate(self))
        if isinstance(value, FailedCell):  # The column has the name already.
            return FailedCell(value.why.removeprefix(f"{_formula(column.id)}: "))
        return value

    def holds(self, text: str, evaluate: Callable[[Any], Any]) -> bool:
        """Returns whether a filter lets the file through. One that fails does not."""
        value = self.run.attempt(lambda: values.is_true(evaluate(self)))
        if isinstance(value, FailedCell):
            self.failures.append((text, value.why))
        return value is True


def _formula(name: str) -> str:
    return f"formula {name.removeprefix('formula.')!r}"


def cell_text(value: Any) -> str:
    """Returns the text of a cell."""
    try:
        return f"⚠ {value.why}" if isinstance(value, FailedCell) else text_of(value)
    except FormulaFailed as error:
        return f"⚠ {error}"


def _sort_key(value: Any) -> Any:
    """Returns a key to sort by, or None: rows without a value come last in both directions."""
    return None if values.is_empty(value) or isinstance(value, FailedCell) else values.order_key(value)


def _sorted(rows: list[BaseRow], sort_key: Callable[[BaseRow], Any], down: bool) -> list[BaseRow]:
    pairs = [(sort_key(row), row) for row in rows]
    filled = sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0], reverse=down)
    return [row for _, row in filled] + [row for found, row in pairs if found is None]


class _KeptRows:
    """The rows of a base, and the state of the files that they were computed from."""

    def __init__(self, *_: object) -> None:  # By what they are kept.
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self.stamps: Stamps = {}
        self.rows: dict[str, tuple[list[BaseRow | None], list[tuple[str, str]]]] = {}
        self.reach = _OWN

    def renew(self, run: BaseRun, stamps: Stamps) -> None:
        came = self.reach == _NAMES and stamps.keys() != self.stamps.keys()
        if came or (self.reach == _ALL and stamps != self.stamps):
            self.clear()
        for path in self.stamps.keys() - stamps.keys():
            self.rows.pop(path, None)  # It is gone already if the last attempt was interrupted.
        for path, stamp in stamps.items():
            if self.stamps.get(path) != stamp:
                self.rows[path] = run.rows(BaseFile(run, path, stamp))
        self.stamps, self.reach = stamps, max(self.reach, run.reach)

    def result(self, run: BaseRun, at: int) -> ViewRows:
        view = run.base.views[at]
        rows = [row for path in self.stamps if (row := self.rows[path][0][at])]
        for number, (_, down) in reversed([*enumerate(view.sort)]):
            rows = _sorted(rows, lambda row, number=number: row.sort[number], down)
        if view.group:
            rows = _sorted(rows, lambda row: _sort_key(row.group), view.group[1])
        total, rows = len(rows), rows[: view.limit]
        failed: dict[tuple[str, str], list[str]] = {}
        for path in self.stamps:
            for failure in self.rows[path][1]:
                failed.setdefault(failure, []).append(path)
        failures = [
            f"filters: {text[:200]!r} fails for {len(paths):,} files, for example {paths[0]!r}: {why}"
            for (text, why), paths in sorted(failed.items())
        ]
        scope = RowScope(run, run.this, {}, {}, [])
        summaries: list[tuple[str, str, Any]] = []
        for number, (column, name, own) in enumerate(view.summaries):
            cells = [None if isinstance(cell := row.summed[number], FailedCell) else cell for row in rows]
            compute = partial(own.evaluate, scope.within(values=cells)) if own else partial(SUMMARIES[name], cells)
            summaries.append((column.id, name, run.attempt(compute)))
        return ViewRows(run.base, view, rows, total, summaries, [*view.problems, *failures])


class BaseRows:
    """Computes bases, for any thread, and keeps the rows of the last ones."""

    def __init__(self) -> None:
        self._kept = lru_cache(_KEPT)(_KeptRows)

    def views(
        self, queries: Queries, vault: Vault, base: Base, *, mount: str, this: str, now: datetime, keep: bool
    ) -> list[ViewRows]:
        """Returns the result of each view. `keep`: rows may be kept, since they do not depend on the time of day."""
        prefix = f"{mount}/" if mount else ""
        span = (prefix, f"{mount}0") if mount else ("", "\U0010ffff")
        stamps: Stamps = {path: tuple(stamp) for path, *stamp in queries.connection.execute(_FILES, span)}
        kept = self._kept(base.text, this, stamps.get(this), now.date()) if keep else _KeptRows()
        run = BaseRun(queries, vault, base, prefix=prefix, now=now, this=this, stamps=stamps)
        with kept.lock:
            try:
                kept.renew(run, stamps)
                return [kept.result(run, at) for at in range(len(base.views))]
            except OutOfSteps:
                kept.clear()
        why = "The base takes too many steps. Make its formulas simpler."
        return [ViewRows(base, view, [], 0, [], [*view.problems, why]) for view in base.views]

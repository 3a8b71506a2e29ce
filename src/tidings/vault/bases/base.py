"""`Base`: a `.base` file taken apart. A part that is wrong becomes a problem with its place, and hides no other."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from tidings._kit.bounded_json import as_dict, as_dicts, as_text
from tidings._kit.suggest import closest, did_you_mean
from tidings.vault.bases.formulas import Formula, FormulaBroken
from tidings.vault.bases.functions import FIELDS, SUMMARIES, Scope
from tidings.vault.notes.properties import Frontmatter, load

_KEYS: Final = ("filters", "formulas", "properties", "summaries", "views")
_VIEW_KEYS: Final = ("type", "name", "filters", "order", "sort", "groupBy", "limit", "summaries")
_TYPES: Final = ("table", "cards", "list", "kanban", "map")
_MOST: Final = 200  # Views, formulas, or columns of a view.
_DEEPEST: Final = 20  # Filters within filters.

Condition = Callable[[Scope], bool]


class ViewColumn(NamedTuple):
    """A property that a view shows, sorts, groups or sums up."""

    id: str  # As it is written.
    formula: Formula | None  # None if there is no such property.
    problem: str = ""


class BaseView(NamedTuple):
    """One view of a base."""

    name: str
    type: str
    condition: Condition | None  # None if a filter is broken, so that nothing is shown.
    columns: list[ViewColumn]
    sort: list[tuple[ViewColumn, bool]]  # With True for the descending ones.
    group: tuple[ViewColumn, bool] | None
    limit: int | None
    summaries: list[tuple[ViewColumn, str, Formula | None]]  # With a formula if it is not one of Obsidian's.
    problems: list[str]


@dataclass
class Base:
    """A base, with everything in it that could be read."""

    text: str
    problems: list[str]
    views: list[BaseView] = field(default_factory=list[BaseView])
    formulas: dict[str, Formula | str] = field(default_factory=dict[str, Formula | str])  # A text is a problem.
    summaries: dict[str, Formula | str] = field(default_factory=dict[str, Formula | str])
    names: dict[str, str] = field(default_factory=dict[str, str])  # The shown names of properties.
    uses: set[str] = field(default_factory=set[str])

    def shown_name(self, column: str) -> str:
        name = _full(column)
        return self.names.get(name) or name.removeprefix("note.").removeprefix("formula.")


@lru_cache(64)
def parse_base(text: str) -> Base:
    """Reads a base. Never raises."""
    content, problem = load(Frontmatter(0, len(text), text, "yaml", 0))
    if problem:
        # Properties begin in the second line of a note.
        problem = re.sub(r"line (\d+)", lambda found: f"line {int(found[1]) - 1}", problem)
        problem = f"Not all of it can be read: {problem.partition(': ')[2] or problem}"
    unknown = [f"There is no key {name!r}.{did_you_mean(name, _KEYS)}" for name in content if name not in _KEYS]
    base = Base(text, [*filter(None, [problem]), *unknown])
    for section, known in (("formulas", base.formulas), ("summaries", base.summaries)):
        for name, written in list(as_dict(content.get(section)).items())[:_MOST]:
            known[name] = made = _formula(base, written)
            if isinstance(made, str):
                base.problems.append(f"{section}: {name}: {made}")
    for name, settings in as_dict(content.get("properties")).items():
        if shown := as_text(as_dict(settings).get("displayName")):
            base.names[_full(name)] = shown
    views = as_dicts(content.get("views")) or ([] if problem else [{"name": "Table"}])
    base.views = [_ViewReader(base, view, number).read(content) for number, view in enumerate(views[:_MOST], 1)]
    return base


def _formula(base: Base, written: Any) -> Formula | str:
    text = str(written).lower() if isinstance(written, bool) else str(written)
    try:
        formula = Formula(text)
    except FormulaBroken as error:
        return f"{text[:200]!r} is not a formula: {error}"
    base.uses |= formula.uses
    return formula


class _ViewReader:
    def __init__(self, base: Base, view: dict[str, Any], number: int) -> None:
        self._base, self._view, self._number = base, view, number
        self._problems: list[str] = []

    def read(self, content: dict[str, Any]) -> BaseView:
        view, problems = self._view, self._problems
        for name in view.keys() - {*_VIEW_KEYS}:
            # Other keys belong to plugins.
            near = closest(name, _VIEW_KEYS, cutoff=0.75)
            problems += [f"there is no key {name!r}. Did you mean {each!r}?" for each in near]
        kind = as_text(view.get("type")) or "table"
        if kind not in _TYPES:
            problems.append(f"type: {kind!r} is not one of {', '.join(_TYPES)}. It is shown as a table.")
        limit = view.get("limit")
        if limit is not None and not (isinstance(limit, int) and limit >= 0):
            problems.append(f"limit: {limit!r} is not a number of rows.")
        group = view.get("groupBy")
        grouped = {"property": group} if isinstance(group, str) else as_dict(group)
        order = cast("list[Any]", view.get("order")) if isinstance(view.get("order"), list) else ["file.name"]
        filters = [part for part in (content.get("filters"), view.get("filters")) if part is not None]
        return BaseView(
            as_text(view.get("name")) or f"View {self._number}",
            kind,
            self._condition("and", filters, 0),
            [self._column(each, "order") for each in order[:_MOST]],
            [self._sorted(each, "sort") for each in as_dicts(view.get("sort"))[:_MOST]],
            self._sorted(grouped, "groupBy") if grouped else None,
            limit if isinstance(limit, int) and limit > 0 else None,
            list(self._summaries(as_dict(view.get("summaries")))),
            problems,
        )

    def _condition(self, conjunction: str, parts: Sequence[Any], depth: int) -> Condition | None:
        conditions = [self._filter(each, depth) for each in parts]
        known = [each for each in conditions if each is not None]
        if len(known) < len(conditions):
            return None
        if conjunction == "or":
            return lambda s: not known or any(each(s) for each in known)
        if conjunction == "not":
            return lambda s: not any(each(s) for each in known)
        return lambda s: all(each(s) for each in known)

    def _filter(self, written: Any, depth: int) -> Condition | None:
        parts = {"and": cast("Any", written)} if isinstance(written, list) else as_dict(written)
        if isinstance(written, str):
            formula = _formula(self._base, written)
            if isinstance(formula, Formula):
                return lambda s: s.holds(written, formula.evaluate)
            self._problems.append(f"filters: {formula}")
            return None
        if len(parts) != 1 or not parts.keys() <= {"and", "or", "not"} or depth > _DEEPEST:
            cure = "Write a formula, or one of 'and', 'or' and 'not' with a list."
            self._problems.append(f"filters: {str(parts)[:100]!r} is not a filter. {cure}")
            return None
        ((conjunction, inner),) = parts.items()
        several = cast("list[Any]", inner) if isinstance(inner, list) else [inner] if inner else []
        return self._condition(conjunction, several, depth + 1)

    def _column(self, written: Any, place: str) -> ViewColumn:
        kind, _, own = _full(str(written)).partition(".")
        problem = ""
        if kind == "formula" and own not in self._base.formulas:
            problem = f"there is no formula {own!r}.{did_you_mean(own, [*self._base.formulas])}"
        elif kind == "file" and own not in FIELDS["file"]:
            problem = f"files have no property {own!r}.{did_you_mean(own, [*FIELDS['file']])}"
        if problem:
            self._problems.append(f"{place}: {written}: {problem}")
            return ViewColumn(str(written), None, problem)
        quoted = own.replace("\\", "\\\\").replace('"', '\\"')
        return ViewColumn(str(written), Formula(f"file.{own}" if kind == "file" else f'{kind}["{quoted}"]'))

    def _sorted(self, entry: dict[str, Any], place: str) -> tuple[ViewColumn, bool]:
        column = self._column(entry.get("property") or entry.get("column") or "file.name", place)
        return column, str(entry.get("direction")).upper() == "DESC"

    def _summaries(self, wanted: dict[str, Any]) -> Iterable[tuple[ViewColumn, str, Formula | None]]:
        for column, name in wanted.items():
            own = self._base.summaries.get(str(name))
            if isinstance(own, Formula) or name in SUMMARIES:
                yield self._column(column, "summaries"), name, own if isinstance(own, Formula) else None
            else:
                hint = did_you_mean(str(name), [*SUMMARIES, *self._base.summaries])
                self._problems.append(f"summaries: {column}: there is no summary {name!r}.{hint}")


def _full(name: str) -> str:
    """Returns the id of a property with its kind."""
    return name if name.startswith(("file.", "formula.", "note.")) else f"note.{name}"

"""`Base`: a `.base` file taken apart. A part that is wrong becomes a problem with its place, and hides no other.

`Formula`: the text of a formula or filter becomes a function that computes a value for a file. The syntax is that of
Obsidian's help, "Bases syntax". Names of functions are checked when the text is parsed; the types of values when it is
evaluated. An evaluation spends steps, so that no formula takes much time or memory.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

from tidings._kit.bounded_json import as_dict, as_dicts, as_text
from tidings._kit.patterns import BadPattern
from tidings._kit.suggest import closest, did_you_mean
from tidings.vault.bases import functions, values
from tidings.vault.bases.functions import FIELDS, LAMBDAS, METHODS, SUMMARIES, Scope, weighed, weight
from tidings.vault.bases.values import FormulaFailed, compare, equal, is_true, kind_of
from tidings.vault.notes.properties import Frontmatter, load

T = TypeVar("T")
Expression = Callable[[Scope], Any]
Condition = Callable[[Scope], bool]

_DEEPEST: Final = 50
_LONGEST: Final = 20_000  # Characters of a formula.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) | (?P<text>"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+')
      | (?P<name>[^\W\d][\w$]*) | (?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!()\[\]{},.:]) | (?P<end>\Z) | (?P<odd>.))""",
    re.VERBOSE | re.DOTALL,
)
_REGEXP: Final = re.compile(r"((?:\\.|\[(?:\\.|[^\]\\\n])*+\]|[^/\\\n\[])++)/(\w*)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_OPERATORS: Final[dict[str, tuple[int, Callable[[Any, Any], Any]]]] = {
    "<": (4, lambda a, b: compare(a, b) == -1),
    ">": (4, lambda a, b: compare(a, b) == 1),
    "<=": (4, lambda a, b: compare(a, b) in (-1, 0)),
    ">=": (4, lambda a, b: compare(a, b) in (1, 0)),
    "+": (5, values.plus),
    "-": (5, lambda a, b: values.plus(a, b, -1)),
    **{sign: (6, partial(values.calculated, sign)) for sign in "*/%"},
}
_LEVELS: Final = {"||": 1, "&&": 2, "==": 3, "!=": 3} | {sign: level for sign, (level, _) in _OPERATORS.items()}
_METHODS: Final = frozenset(name for kind, table in METHODS.items() if kind for name in table) | LAMBDAS
_KEYS: Final = ("filters", "formulas", "properties", "summaries", "views")
_VIEW_KEYS: Final = ("type", "name", "filters", "order", "sort", "groupBy", "limit", "summaries")
_TYPES: Final = ("table", "cards", "list", "kanban", "map")
_MOST: Final = 200  # Views, formulas, or columns of a view.
_DEEPEST_FILTER: Final = 20  # Filters within filters.


class FormulaBroken(ValueError):
    """A text is not a formula. The message says where and why."""


class Formula:
    """A parsed formula. `uses` has the functions of time in it. Raises `FormulaBroken`."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise FormulaBroken(f"it has more than {_LONGEST:,} characters")
        self.uses: set[str] = set()
        self._text = text
        self._kind: str  # The current token, and its place.
        self._word, self._start, self._end, self._depth = "", 0, 0, 0
        self._next()
        self.evaluate = self._expression()
        if self._kind != "end":
            self._refuse(f"{self._word!r} is not expected")

    def _next(self) -> str:
        """Goes to the next token. Returns the one before it."""
        before, found = self._word, cast("re.Match[str]", _TOKEN.match(self._text, self._end))
        self._kind = found.lastgroup or ""
        self._word, self._start, self._end = found[self._kind], found.start(self._kind), found.end()
        if self._kind == "odd":
            self._refuse(f"{self._word!r} is not expected{'; compare with ==' if self._word == '=' else ''}")
        return before

    def _refuse(self, why: str) -> NoReturn:
        raise FormulaBroken(f"{why} at its end" if self._kind == "end" else f"{why} (character {self._start + 1})")

    def _take(self, sign: str) -> bool:
        taken = self._kind == "sign" and self._word == sign
        if taken:
            self._next()
        return taken

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            self._refuse(f"{sign!r} is missing")

    def _name(self) -> str:
        return self._next() if self._kind == "name" else self._refuse("a name is missing after '.'")

    def _expression(self, least: int = 1) -> Expression:
        left = self._operand()
        # One after the other, not one in the other: a sum may be long.
        while self._kind == "sign" and (level := _LEVELS.get(self._word, 0)) >= least:
            left = _combined(self._next(), left, self._expression(level + 1))
        return left

    def _operand(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise FormulaBroken("it is too deeply nested")
        sign = "!" if self._take("!") else "-" if self._take("-") else ""
        inner = self._operand() if sign else self._followed(self._primary())
        self._depth -= 1
        if sign == "!":
            return lambda s: not is_true(inner(s))
        return (lambda s: values.calculated("*", inner(s), -1)) if sign else inner

    def _primary(self) -> Expression:  # noqa: PLR0911 - one a kind of token
        if self._kind == "sign" and self._word == "/":
            return self._regexp()
        kind, start, word = self._kind, self._start, self._next()
        match kind, word:
            case "number", _:
                return _constant(int(word) if word.isdigit() and len(word) < 16 else float(word))
            case "text", _:
                text = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), word[1:-1], flags=re.DOTALL)
                return _constant(text)
            case "name", _:
                return self._named(word)
            case "sign", "(":
                inner = self._expression()
                self._need(")")
                return inner
            case "sign", "[":
                items = self._list("]", self._expression)
                return lambda s: weighed(s, [item(s) for item in items])
            case "sign", "{":
                members = self._list("}", self._member)
                return lambda s: weighed(s, {name: value(s) for name, value in members})
            case _:
                where = "at its end" if kind == "end" else f"(character {start + 1})"
                raise FormulaBroken(f"a value is missing {where}")

    def _named(self, name: str) -> Expression:  # noqa: PLR0911 - one a kind of name
        if name in _CONSTANTS:
            return _constant(_CONSTANTS[name])
        if self._take("("):
            return self._call(name)
        if name in ("file", "this"):
            if name == "this" and self._take(".") and (own := self._name()) != "file":
                return lambda s: s.run.this.value_of(own)
            return (lambda s: s.file) if name == "file" else (lambda s: s.run.this)
        if name not in ("note", "formula"):
            return lambda s: s.named(name)
        if self._take("."):
            key: Expression = _constant(self._name())
        elif self._take("["):
            key = self._expression()
            self._need("]")
        else:
            return lambda s: s.file.properties
        return (lambda s: s.file.value_of(str(key(s)))) if name == "note" else (lambda s: s.formula(str(key(s))))

    def _followed(self, value: Expression) -> Expression:
        while True:
            if self._take("."):
                name = self._name()
                value = self._method(value, name) if self._take("(") else _field(value, name)
            elif self._take("["):
                value = _item(value, self._expression())
                self._need("]")
            else:
                return value

    def _method(self, value: Expression, name: str) -> Expression:
        if name not in _METHODS:
            raise FormulaBroken(f"there is no function {name}().{did_you_mean(name, sorted(_METHODS))}")
        self.uses |= {name} & {"relative"}
        arguments = self._list(")", self._expression)
        if name not in LAMBDAS:
            return lambda s: functions.called(
                s, name, kind_of(own := value(s)), [own, *(each(s) for each in arguments)]
            )
        if len(arguments) != (2 if name == "reduce" else 1):
            raise FormulaBroken(f"{name}() takes {'two values' if name == 'reduce' else 'one value'}")
        return lambda s: functions.lambda_called(s, name, value(s), arguments[0], *(each(s) for each in arguments[1:]))

    def _call(self, name: str) -> Expression:
        arguments = self._list(")", self._expression)
        if name == "if":
            if len(arguments) not in (2, 3):
                raise FormulaBroken("if() takes a condition and one or two values")
            condition, yes, no = [*arguments, _constant(None)][:3]
            return lambda s: yes(s) if is_true(condition(s)) else no(s)
        if name not in METHODS[""]:
            raise FormulaBroken(f"there is no function {name}().{did_you_mean(name, ['if', *METHODS['']])}")
        self.uses |= {name} & {"now", "today", "random"}
        return lambda s: functions.called(s, name, "", [each(s) for each in arguments])

    def _list(self, end: str, item: Callable[[], T]) -> list[T]:
        items: list[T] = []
        while not self._take(end):
            items.append(item())
            if not self._take(","):
                self._need(end)
                break
        return items

    def _member(self) -> tuple[str, Expression]:
        name = self._next().strip("\"'")
        self._need(":")
        return name, self._expression()

    def _regexp(self) -> Expression:
        found = _REGEXP.match(self._text, self._end)
        if found is None:
            self._refuse("the regular expression does not end")
        self._end = int(found.end())
        self._next()
        try:
            return _constant(values.parse_regexp(found[1], found[2]))
        except BadPattern as error:
            raise FormulaBroken(f"the regular expression /{found[1]}/ cannot be used: {error}") from error


def _constant(value: Any) -> Expression:
    return lambda s: value


def _combined(sign: str, left: Expression, right: Expression) -> Expression:
    if sign == "||":
        return lambda s: value if is_true(value := left(s)) else right(s)
    if sign == "&&":
        return lambda s: right(s) if is_true(value := left(s)) else value
    operate = _OPERATORS[sign][1] if sign in _OPERATORS else None

    def operated(s: Scope) -> Any:
        a, b = left(s), right(s)
        s.run.spend(1 + weight(a) + weight(b))
        return operate(a, b) if operate else equal(a, b, s.run.resolve) == (sign == "==")

    return operated


def _field(value: Expression, name: str) -> Expression:
    def field(s: Scope) -> Any:
        s.run.spend(1)
        owner = value(s)
        if owner is None or isinstance(owner, dict):
            return cast("dict[str, Any]", owner or {}).get(name)
        kind = kind_of(owner)
        if find := FIELDS.get(kind, {}).get(name):
            return find(owner)
        raise FormulaFailed(f"a {kind} has no field {name!r}")

    return field


def _item(value: Expression, index: Expression) -> Expression:
    def item(s: Scope) -> Any:
        owner, at = value(s), index(s)
        if isinstance(owner, dict):
            return cast("dict[Any, Any]", owner).get(values.text_of(at))
        if isinstance(owner, str | list) and isinstance(at, int | float):
            items = cast("list[Any]", owner)
            return items[int(at)] if 0 <= at < len(items) else None
        file = cast("Any", owner)
        return file.value_of(values.text_of(at)) if kind_of(file) == "file" else None

    return item


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
        if len(parts) != 1 or not parts.keys() <= {"and", "or", "not"} or depth > _DEEPEST_FILTER:
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

"""What is wrong with an option is said where it is given."""

import functools
import operator
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tidings import LiveServer, attach
from tidings.bus.memory import MemoryBus
from tidings.bus.sqlite import SqliteBus
from tidings.server import Coalesce, Limits


@pytest.mark.parametrize(
    ("option", "value", "help_in_message"),
    [
        ("bus", Path("changes.db"), r"bus is pathlib.*Path: pass a bus object"),
        ("bus", SqliteBus, r"bus is the class SqliteBus: pass a bus object"),
        ("coalesce", 0.5, r"coalesce must be a Coalesce, .*, or a mapping of URI patterns to them, not float 0\.5"),
        ("coalesce", None, r"coalesce must be a Coalesce, .* not NoneType"),
        ("coalesce", {"note://*": 0.5}, r"coalesce\['note://\*'\] must be a Coalesce, .* not float 0\.5"),
        ("coalesce", {7: Coalesce()}, r"A pattern is a string .*, not int"),
        ("limits", 100, r"limits must be a Limits, e\.g\. Limits\(streams=100\), not int 100"),
        ("limits", {"streams": 100}, r"limits must be a Limits, .* not dict"),
        ("authorize", True, r"authorize must be a function, 'def authorize\(ctx, uri\) -> bool', not bool True"),
        ("authorize", lambda uri: True, r"write 'def authorize\(ctx, uri\)'. This function .*: too many positional"),
        ("authorize", lambda a, b, c: True, r"This function does not fit: missing a required argument: 'c'"),
        ("subscribable", "note://*", r"subscribable must be a list of strings: pass \['note://\*'\], not 'note://\*'"),
        ("subscribable", 7, r"subscribable must be a list of URIs, prefixes and templates, not int 7"),
        ("subscribable", [7], r"A pattern is a string .*, not int"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_in_words_that_help(
    option: str, value: Any, help_in_message: str
) -> None:
    options = {option: value}
    with pytest.raises(TypeError, match=help_in_message):
        LiveServer("x", **options)
    plain = MCPServer("plain")
    with pytest.raises(TypeError, match=help_in_message):
        attach(plain, **options)
    attach(plain)  # It was left as it was.


def test_a_pattern_that_is_none_is_refused_with_what_it_is() -> None:
    with pytest.raises(ValueError, match=r"'note://\{id' is not a URI template"):
        LiveServer("x", coalesce={"note://{id": Coalesce()})
    with pytest.raises(ValueError, match="begin with a scheme"):
        LiveServer("x", subscribable=["note"])


class _Rules:
    def allows(self, ctx: Any, uri: str, *, strict: bool = False) -> bool:
        return not strict

    def __call__(self, *arguments: Any) -> bool:
        return bool(arguments)


@pytest.mark.parametrize(
    "authorize", [None, _Rules(), _Rules().allows, functools.partial(_Rules().allows, strict=True), operator.eq, max]
)
def test_whatever_takes_a_context_and_a_uri_may_authorise(authorize: Any) -> None:
    LiveServer("x", authorize=authorize)


@pytest.mark.parametrize(
    "options",
    [
        {"bus": MemoryBus()},
        {"coalesce": {"note://{id}": Coalesce(), "order://*": Coalesce(window=0)}},
        {"limits": Limits(streams=1)},
        {"subscribable": ("note://*",)},
        {"subscribable": {"note://*"}},
    ],
    ids=["bus", "coalesce", "limits", "subscribable", "subscribable as a set"],
)
def test_options_of_the_right_kind_are_taken(options: dict[str, Any]) -> None:
    LiveServer("x", **options)


# Hooks


HOOKS = pytest.mark.parametrize("name", ["on_first_subscriber", "on_last_subscriber"])


def _takes_id(id: str) -> None:  # noqa: A002 - the variable's name in the template
    pass


def _takes_nothing() -> None:
    pass


def _takes_anything(**variables: str) -> None:
    pass


def _takes_id_and_perhaps_page(id: str, page: str = "1") -> None:  # noqa: A002 - see above
    pass


def _takes_id_and_page(id: str, page: str) -> None:  # noqa: A002 - see above
    pass


@HOOKS
def test_a_decorator_without_its_parentheses_says_how_it_is_written(name: str) -> None:
    for server in (LiveServer("x"), attach(MCPServer("plain"))):
        with pytest.raises(TypeError, match=rf'write @{name}\("note://\{{id\}}"\)'):
            getattr(server, name)(_takes_id)


@HOOKS
@pytest.mark.parametrize(
    ("pattern", "hook", "help_in_message"),
    [
        ("feed://{id}", _takes_nothing, r"write 'def _takes_nothing\(id\)'. .*: got an unexpected .*'id'"),
        ("feed://{name}", _takes_id, r"write 'def _takes_id\(name\)'"),
        ("feed://*", _takes_id, r"write 'def _takes_id\(\)'. .*: missing a required argument: 'id'"),
        ("feed://{id}{?page}", _takes_id_and_page, r"'def _takes_id_and_page\(id, page=\.\.\.\)'"),
        ("feed://{id}", "start", r"decorates a function, not str 'start'"),
        (7, _takes_id, "A pattern is a string"),
    ],
)
def test_a_hook_that_its_templates_variables_do_not_fit_is_refused(
    name: str, pattern: Any, hook: Any, help_in_message: str
) -> None:
    with pytest.raises(TypeError, match=help_in_message):
        getattr(LiveServer("x"), name)(pattern)(hook)


@HOOKS
@pytest.mark.parametrize(
    ("pattern", "hook"),
    [
        ("feed://{id}", _takes_id),
        ("feed://{id}", _takes_anything),
        ("feed://{id}", _takes_id_and_perhaps_page),
        ("feed://{id}{?page}", _takes_id_and_perhaps_page),
        ("feed://{id}", functools.partial(_takes_id_and_page, page="2")),
        ("feed://*", _takes_nothing),
        ("feed://{id}", dict),
    ],
)
def test_a_hook_that_fits_is_given_back_as_it_is(name: str, pattern: str, hook: Any) -> None:
    assert getattr(LiveServer("x"), name)(pattern)(hook) is hook

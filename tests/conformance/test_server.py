"""Tidings against the official conformance suite: both pinned versions, every server scenario, both eras.

A session runs the suite once, in a few node processes; the tests look at the outcomes. A scenario passes when the
suite complains of nothing: a warning is a broken SHOULD, which counts here, and so does a check that was skipped, since
it proves nothing.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance import suite
from tests.conformance.scenarios import EXTENSION, OWN, SCENARIOS, Case, cases

# The first test waits for the whole run, and on a new machine for the installation.
pytestmark = pytest.mark.timeout(600)

SATISFIED = {"SUCCESS", "INFO"}


class Known(NamedTuple):
    """Why a scenario fails, and in which checks; in any of them when none is named."""

    reason: str
    checks: frozenset[str] = frozenset()


class KnownFailure(AssertionError):
    """The scenario failed in the checks that are listed for it, and in no other."""


_NO_TASKS = Known("an optional extension (tasks) that neither the SDK nor Tidings offers")
_NO_SKILLS = Known("an optional extension (skills) that neither the SDK nor Tidings offers: the suite skips its checks")

KNOWN: Mapping[Case, Known] = {
    Case(suite.OLD, "server-sse-polling", OWN): Known(
        "the suite: its call says version 2025-03-26, which has no priming events, and the SDK goes by what it says",
        frozenset({"server-sse-priming-event", "server-sse-retry-field"}),
    ),
    **{case: _NO_TASKS for case in cases() if case.name.startswith("tasks-")},
    **{case: _NO_SKILLS for case in cases() if case.name.startswith("sep-2640-skills-")},
    Case(suite.NEW, "tasks-status-notifications", EXTENSION): Known("the suite: the scenario is yet to be written"),
}
"""The scenarios that fail. Each must go on failing, in the same checks, or leave the table."""


def _marked(case: Case) -> object:
    if case not in KNOWN:
        return pytest.param(case, id=str(case))
    known = pytest.mark.xfail(reason=KNOWN[case].reason, raises=KnownFailure, strict=True)
    return pytest.param(case, id=str(case), marks=known)


@pytest.mark.parametrize("case", [_marked(case) for case in cases()])
def test_the_suite_has_no_complaint(case: Case, outcomes: Mapping[Case, suite.Outcome]) -> None:
    assert case in outcomes, "the suite left no outcome: it broke down or ran out of time"
    complaints = [check for check in outcomes[case] if check.status not in SATISFIED]
    excused = KNOWN[case].checks or {check.id for check in complaints} if case in KNOWN else frozenset[str]()
    unexpected = [str(check) for check in complaints if check.id not in excused]
    assert not unexpected, "\n".join(unexpected)
    if complaints:
        raise KnownFailure("\n".join(map(str, complaints)))


@pytest.mark.parametrize("version", suite.VERSIONS)
def test_the_table_names_every_scenario_that_the_suite_has(version: str, entries: Mapping[str, Path]) -> None:
    assert suite.listed(entries[version]) == SCENARIOS[version]


def test_no_known_failure_is_about_what_tidings_promises() -> None:
    promised = re.compile("subscri|notif|cach|resource|stateless|list")
    assert not [case for case in KNOWN if case.spec != EXTENSION and promised.search(case.name)]

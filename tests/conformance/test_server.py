"""Tidings against the official conformance suite: both pinned versions, every server scenario, both eras.

A session runs the suite once, in a few node processes; the tests look at the outcomes.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.scenarios import EXTENSION, SERVER, Case, cases
from tests.conformance.verdicts import Known, judge, marked

# The first test waits for the whole run, and on a new machine for the installation.
pytestmark = pytest.mark.timeout(600)

_NO_SKILLS = Known("an optional extension (skills) that neither the SDK nor Tidings offers: the suite skips its checks")

KNOWN: Mapping[Case, Known] = {
    **{case: _NO_SKILLS for case in cases(SERVER) if case.name.startswith("sep-2640-skills-")},
    Case(suite.NEW, "tasks-status-notifications", EXTENSION): Known("the suite: the scenario is yet to be written"),
}
"""The scenarios that fail. Each must go on failing, in the same checks, or leave the table."""


@pytest.mark.parametrize("case", marked(SERVER, KNOWN))
def test_the_suite_has_no_complaint(case: Case, server_outcomes: Mapping[Case, suite.Outcome]) -> None:
    judge(case, server_outcomes, KNOWN)


@pytest.mark.parametrize("version", suite.VERSIONS)
def test_the_table_names_every_scenario_that_the_suite_has(version: str, entries: Mapping[str, Path]) -> None:
    assert suite.listed(entries[version], "server") == SERVER[version]


def test_no_known_failure_is_about_what_tidings_promises() -> None:
    promised = re.compile("subscri|notif|cach|resource|stateless|list")
    assert not [case for case in KNOWN if case.spec != EXTENSION and promised.search(case.name)]

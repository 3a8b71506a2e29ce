"""Tidings' client against the official conformance suite: both pinned versions, every client scenario, both eras.

A session runs the suite once, in a few node processes, which run `client.py`; the tests look at the outcomes.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.scenarios import CLIENT, EXTENSION, OWN, Case, cases
from tests.conformance.verdicts import Known, judge, marked

# The first test waits for the whole run, and on a new machine for the installation.
pytestmark = pytest.mark.timeout(600)

_NO_SKILLS = Known("an optional extension (skills) that neither the SDK nor Tidings offers: the suite skips its checks")
_NO_DPOP = Known("an optional extension (DPoP) that the SDK's OAuth providers do not offer")

KNOWN: Mapping[Case, Known] = {
    Case(suite.OLD, "auth/2025-03-26-oauth-metadata-backcompat", OWN): Known(
        "the suite: its metadata names another issuer than the server's, which the SDK must not use (RFC 8414, 3.3)",
        frozenset({"client-registration", "authorization-request", "token-request", "client-ending"}),
    ),
    Case(suite.NEW, "http-standard-headers", "2026-07-28"): Known(
        "the suite: it skips its checks of the handshake, which this version of the protocol does not have",
        frozenset({"ClientMcpMethodHeader_initialize", "ClientMcpMethodHeader_notifications_initialized"}),
    ),
    Case(suite.NEW, "auth/wif-jwt-bearer", EXTENSION): Known(
        "an optional extension (workload identity) that the SDK offers only to clients with a secret"
    ),
    **{case: _NO_DPOP for case in cases(CLIENT) if case.name.startswith("auth/dpop")},
    **{case: _NO_SKILLS for case in cases(CLIENT) if case.name.startswith("sep-2640-client-")},
}
"""The scenarios that fail. Each must go on failing, in the same checks, or leave the table."""


@pytest.mark.parametrize("case", marked(CLIENT, KNOWN))
def test_the_suite_has_no_complaint(case: Case, client_outcomes: Mapping[Case, suite.Outcome]) -> None:
    judge(case, client_outcomes, KNOWN)


@pytest.mark.parametrize("version", suite.VERSIONS)
def test_the_table_names_every_scenario_that_the_suite_has(version: str, entries: Mapping[str, Path]) -> None:
    assert suite.listed(entries[version], "client") == CLIENT[version]


def test_no_known_failure_is_about_what_the_client_does_itself() -> None:
    own = {case.name for case in KNOWN if case.spec != EXTENSION and not case.name.startswith("auth/")}
    assert own == {"http-standard-headers"}, "and there nothing fails: two checks are skipped"

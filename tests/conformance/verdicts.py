"""What an outcome is worth: a scenario passes when the suite complains of nothing.

A warning is a broken SHOULD, which counts here, and so does a check that was skipped, since it proves nothing.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.conformance import suite
from tests.conformance.scenarios import Case, Table, cases

SATISFIED = {"SUCCESS", "INFO"}
CURRENT = {"2025-11-25", "2026-07-28"}
"""The last version of the protocol in each era."""


class Known(NamedTuple):
    """Why a scenario fails, and in which checks, by id or name; in any of them when none is named."""

    reason: str
    checks: frozenset[str] = frozenset()

    def excuses(self, check: suite.Check) -> bool:
        return not self.checks or check.id in self.checks or check.name in self.checks


class KnownFailure(AssertionError):
    """The scenario failed in the checks that are listed for it, and in no other."""


def marked(table: Table, known: Mapping[Case, Known]) -> list[object]:
    """The cases of a table as parameters of a test; those that are known to fail are expected to.

    The newest suite speaks the current version of each era in `make test`, and the others are left to `make thorough`.
    """

    def mark(case: Case) -> object:
        marks = [] if case.version == suite.NEW and case.spec in CURRENT else [pytest.mark.thorough]
        if case in known:
            marks.append(pytest.mark.xfail(reason=known[case].reason, raises=KnownFailure, strict=True))
        return pytest.param(case, id=str(case), marks=marks)

    return [mark(case) for case in cases(table)]


def judge(case: Case, outcomes: Mapping[Case, suite.Outcome], known: Mapping[Case, Known]) -> None:
    assert case in outcomes, "the suite left no outcome: it broke down or ran out of time"
    complaints = [check for check in outcomes[case] if check.status not in SATISFIED]
    unexpected = [str(check) for check in complaints if case not in known or not known[case].excuses(check)]
    assert not unexpected, "\n".join(unexpected)
    if complaints:
        raise KnownFailure("\n".join(map(str, complaints)))

"""The tasks of three replicas on one bus, behind a balancer that gives each request to the next of them."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread
import pytest

from tests.conformance import suite
from tests.conformance.process import serving
from tests.conformance.scenarios import EXTENSION, SERVER, SERVER_MILLISECONDS, Case
from tests.conformance.test_server import KNOWN
from tests.conformance.verdicts import judge
from tests.server.balancer import balanced

pytestmark = [pytest.mark.anyio, pytest.mark.thorough, pytest.mark.timeout(600)]

CASES = [Case(suite.NEW, name, EXTENSION) for name in SERVER[suite.NEW] if name.startswith("tasks-")]


async def test_the_suite_has_no_complaint_about_the_tasks_of_replicas(
    entries: Mapping[str, Path], tmp_path: Path
) -> None:
    bus = f"sqlite:///{tmp_path}/bus.db"
    outcomes: dict[Case, suite.Outcome] = {}
    with suite.turn(), ExitStack() as stack:
        urls = [stack.enter_context(serving(tmp_path / f"{number}.log", "httptools", bus)) for number in range(3)]
        async with balanced([urlsplit(url).port or 0 for url in urls]) as (balancer, port):
            for case in CASES:
                selection = ("--scenario", case.name, "--timeout", str(SERVER_MILLISECONDS))
                found = await anyio.to_thread.run_sync(
                    lambda: suite.run_server(entries[case.version], f"http://127.0.0.1:{port}/mcp", *selection)  # noqa: B023
                )
                outcomes |= {Case(case.version, name, EXTENSION): outcome for name, outcome in found.items()}
    assert {replica for _, replica in balancer.asked} == {0, 1, 2}
    for case in CASES:
        if case not in KNOWN:
            judge(case, outcomes, KNOWN)

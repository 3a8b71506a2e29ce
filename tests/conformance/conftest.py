"""The suite, installed; and what it finds when it is let loose on the server, and on the client."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.process import nursing, serving
from tests.conformance.scenarios import CLIENT, SERVER, Batch, Case, Table, batches

AT_ONCE = 2
"""Node processes that run at the same time: more only makes the suite's own short waits run out. So whoever else runs
tests of this checkout waits for their turn.
"""


@pytest.fixture(scope="session")
def entries() -> Mapping[str, Path]:
    """The entry point of each pinned version of the suite."""
    try:
        return {version: suite.install(version) for version in suite.VERSIONS}
    except suite.RegistryUnreachable as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session", params=["httptools", pytest.param("h11", marks=pytest.mark.thorough)])
def server_outcomes(
    request: pytest.FixtureRequest, entries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Case, suite.Outcome]:
    """What each selected scenario for servers came to, with each of uvicorn's parsers."""
    with serving(tmp_path_factory.mktemp("conformance") / "server.log", request.param) as url:
        return _outcomes(request, SERVER, lambda one: suite.run_server(entries[one.version], url, *one.selection))


@pytest.fixture(scope="session")
def client_outcomes(
    request: pytest.FixtureRequest, entries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Case, suite.Outcome]:
    """What each selected scenario for clients came to."""
    with nursing(tmp_path_factory.mktemp("conformance")) as command:
        return _outcomes(request, CLIENT, lambda one: suite.run_client(entries[one.version], command, *one.selection))


def _outcomes(
    request: pytest.FixtureRequest, table: Table, run: Callable[[Batch], dict[str, suite.Outcome]]
) -> Mapping[Case, suite.Outcome]:
    selected = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    wanted = {(case.version, case.spec) for case in selected if isinstance(case, Case)}
    with suite.turn(), ThreadPoolExecutor(AT_ONCE) as pool:
        started = [(each, pool.submit(run, each)) for each in batches(table) if (each.version, each.spec) in wanted]
        return {
            Case(batch.version, name, batch.spec): outcome
            for batch, running in started
            for name, outcome in running.result().items()
        }

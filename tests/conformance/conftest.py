"""The suite, installed; and what it finds when it is let loose on the server."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.process import serving
from tests.conformance.scenarios import Case, batches

AT_ONCE = 2
"""Node processes that run at the same time: more only makes the suite's own short waits run out."""


@pytest.fixture(scope="session")
def entries() -> Mapping[str, Path]:
    """The entry point of each pinned version of the suite."""
    try:
        return {version: suite.install(version) for version in suite.VERSIONS}
    except suite.RegistryUnreachable as reason:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def outcomes(entries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[Case, suite.Outcome]:
    """What each scenario came to."""
    log = tmp_path_factory.mktemp("conformance") / "server.log"
    with serving(log) as url, ThreadPoolExecutor(AT_ONCE) as pool:
        started = [
            (batch, pool.submit(suite.run, entries[batch.version], url, *batch.selection)) for batch in batches()
        ]
        return {
            Case(batch.version, name, batch.spec): outcome
            for batch, running in started
            for name, outcome in running.result().items()
        }

"""The suite against `tidings bridge`, before the server under test: what the server passes, the bridge passes."""

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from tests.conformance import suite
from tests.conformance.process import serving
from tests.conformance.scenarios import SERVER, Case, batches
from tests.conformance.test_server import KNOWN
from tests.conformance.verdicts import judge
from tests.ports import free_port

RECOMMENDED = (
    "server-sse-polling"  # Of a transport that resumes a stream by the ids of its events: the bridge has none.
)
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def test_the_suite_has_no_complaint_that_it_does_not_have_about_the_server(
    entries: Mapping[str, Path], tmp_path: Path
) -> None:
    port = free_port()
    with suite.turn(), serving(tmp_path / "server.log", "httptools") as url:
        words = [sys.executable, "-m", "tidings", "bridge", url, "--http", f"127.0.0.1:{port}", "--bus", "memory:"]
        with (tmp_path / "bridge.log").open("wb") as log:
            bridge = subprocess.Popen(words, stderr=log)
        try:
            _wait_for(port)
            for batch in batches(SERVER):
                own = suite.run_server(entries[batch.version], f"http://127.0.0.1:{port}/mcp", *batch.selection)
                outcomes = {Case(batch.version, name, batch.spec): outcome for name, outcome in own.items()}
                for case in outcomes:
                    if case not in KNOWN and case.name != RECOMMENDED:
                        judge(case, outcomes, KNOWN)
        finally:
            bridge.terminate()
            bridge.wait(20)


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/").status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.1)
    raise TimeoutError("The bridge does not answer.")

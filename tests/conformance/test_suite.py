"""How the suite gets here: once, whole or not at all, and with a plain word when the registry is out of reach."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.conformance import suite

# The first use of the suite on a new machine waits for its installation.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """npm with a registry on a port where nobody listens."""
    with socket.socket() as bound:  # Bound, so that no one else gets the port, but not listening.
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{bound.getsockname()[1]}/")
        monkeypatch.setenv("npm_config_fetch_retry_mintimeout", "1")
        monkeypatch.setenv("npm_config_prefer_online", "true")
        monkeypatch.setenv("npm_config_noproxy", "127.0.0.1")
        yield


@pytest.mark.usefixtures("unreachable")
def test_an_unreachable_registry_is_named_as_the_cause_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(suite.RegistryUnreachable, match=r"^the npm registry cannot be reached \(ECONNREFUSED\)$"):
        suite.install(suite.OLD, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unreachable")
def test_a_second_installation_asks_npm_for_nothing(entries: Mapping[str, Path]) -> None:
    assert {version: suite.install(version) for version in suite.VERSIONS} == entries

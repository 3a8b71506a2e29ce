"""What a vault's server answers before it runs is what it answers; and a client sees one server all the time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tests.vault.front_answers import STATIC, answers_of, collect, envelope, initialize, written
from tidings.vault import VaultServer, front
from tidings.vault.files.paths import Vault

VERSIONS = (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)


@pytest.mark.anyio
async def test_the_answers_that_are_kept_are_the_servers_own(tmp_path: Path) -> None:
    kept = front.ANSWERS.read_text(encoding="utf-8")
    assert kept == written(await collect(tmp_path)), "python -m tests.vault.front_answers --write"


@pytest.mark.anyio
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("folders", [["Notes"], ['Über "uns"', "b"], ["$serverInfo"]])
async def test_a_vault_of_any_name_is_answered_for(tmp_path: Path, folders: list[str], read_only: bool) -> None:
    paths = [tmp_path / name for name in folders]
    for path in paths:
        path.mkdir()
    server = VaultServer(*paths, read_only=read_only, cache=tmp_path / "cache")
    known = front.known_answers(Vault(paths), read_only=read_only)
    answers = {version: {name: json.loads(text) for name, text in some.items()} for version, some in known.items()}
    assert answers == await answers_of(server)
    assert set(answers) == set(VERSIONS)


def test_with_another_sdk_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "front.json"
    other.write_text(front.ANSWERS.read_text().replace('"mcp": "', '"mcp": "0.'))
    monkeypatch.setattr(front, "ANSWERS", other)
    assert front.known_answers(Vault([tmp_path]), read_only=False) == {}
    other.unlink()
    assert front.known_answers(Vault([tmp_path]), read_only=False) == {}


# The command


class Talk:
    """A client that sees every line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def send(self, id_: object, method: str, params: object = None) -> None:
        message = {"jsonrpc": "2.0", "method": method} | ({} if id_ is None else {"id": id_})
        self.write(json.dumps(message | ({} if params is None else {"params": params})).encode() + b"\n")

    def write(self, data: bytes) -> None:
        _pipe(self.process.stdin).write(data)
        _pipe(self.process.stdin).flush()

    def hear(self) -> dict[str, Any]:
        return json.loads(_pipe(self.process.stdout).readline())

    def answers(self, count: int) -> dict[object, dict[str, Any]]:
        """The next answers, by what they are for, in their order."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            if "id" in (heard := self.hear()):
                found.append(heard)
        assert len({each["id"] for each in found}) == count
        return {each["id"]: each for each in found}

    def end(self) -> list[dict[str, Any]]:
        _pipe(self.process.stdin).close()
        return [json.loads(line) for line in _pipe(self.process.stdout)]


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


@contextmanager
def talking(tmp_path: Path, *options: str, sdk: str = "") -> Generator[Talk]:
    """The command, to which somebody talks; with an SDK that does something when it is imported."""
    (tmp_path / "Notes").mkdir()
    (tmp_path / "Notes" / "A.md").write_text("hello #tag\n")
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "sitecustomize.py").write_text(_SDK.replace("pass", sdk or "pass"))
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "sdk")}
    command = [sys.executable, "-m", "tidings", "vault", tmp_path / "Notes", "--cache", tmp_path / "cache", *options]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, bufsize=-1
    )
    try:
        yield Talk(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            _pipe(pipe).close()


_SDK = """
import os, sys, time
class Other:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp.server":
            pass
sys.meta_path.insert(0, Other())
"""

_SLOW = "time.sleep(60)"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_tools_are_there_before_the_sdk_is(tmp_path: Path, version: str) -> None:
    with talking(tmp_path, sdk=_SLOW) as talk:
        modern = version in MODERN_PROTOCOL_VERSIONS
        talk.send(1, "server/discover" if modern else "initialize", (envelope if modern else initialize)(version))
        info = talk.hear()["result"]
        assert (info["supportedVersions"][0] if modern else info["protocolVersion"]) == version
        for method in STATIC[1:]:
            talk.send(method, method, envelope(version) if modern else None)
            assert talk.hear()["id"] == method


def test_a_client_sees_every_answer_once(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        talk.send(None, "notifications/initialized")
        talk.send(1, "tools/list")
        talk.send(2, "resources/subscribe", {"uri": "vault://note/A.md"})
        talk.send(3, "tools/call", {"name": "read", "arguments": {"path": "A.md"}})
        talk.send(4, "prompts/list")
        assert [*talk.answers(3)] == [0, 1, 4]
        heard = talk.answers(2)
        assert "hello" in str(heard[3])
        assert heard[2]["result"] == {}
        talk.send(5, "ping")
        talk.send(6, "tools/list")
        assert {*talk.answers(2)} == {5, 6}
        (tmp_path / "Notes" / "A.md").write_text("other\n")
        while (told := talk.hear()).get("method") != "notifications/resources/updated":
            pass
        assert told["params"]["uri"] == "vault://note/A.md"
        assert [each for each in talk.end() if "id" in each] == []
        assert talk.process.wait(10) == 0


def test_what_is_broken_is_answered_as_without_a_front(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.write(b"no json\n")
        talk.send(0, "initialize", initialize("1999-01-01"))
        assert talk.hear()["result"]["protocolVersion"] == HANDSHAKE_PROTOCOL_VERSIONS[-1]
        talk.send(1, "tools/list", {"cursor": "none that was given"})
        talk.send(2, "nothing/known")
        assert talk.answers(2)[2]["error"]["code"] == -32601


def test_an_input_that_ends_at_once_ends_it(tmp_path: Path) -> None:
    with talking(tmp_path) as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        assert [each["id"] for each in talk.end()] == [0]
        assert talk.process.wait(10) == 0


def test_a_server_that_cannot_start_says_why_and_ends_with_its_code(tmp_path: Path) -> None:
    with talking(tmp_path, "--cache", str(tmp_path / "Notes" / "A.md")) as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        out, err = talk.process.communicate(timeout=60)
        assert (out, talk.process.returncode) == (b"", 2)
        assert b"--cache takes a folder" in err


def test_a_server_that_breaks_while_it_starts_says_why_and_ends_with_its_code(tmp_path: Path) -> None:
    with talking(tmp_path, sdk="raise RuntimeError('it is broken')") as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        out, err = talk.process.communicate(timeout=60)
        assert talk.process.returncode == 70
        assert b"it is broken" in err
        assert all(json.loads(line)["id"] == 0 for line in out.splitlines())


def test_a_signal_ends_it_while_it_starts(tmp_path: Path) -> None:
    with talking(tmp_path, sdk=_SLOW) as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        talk.hear()
        talk.process.send_signal(signal.SIGTERM)
        assert talk.process.wait(30) == 128 + signal.SIGTERM


def test_what_is_printed_is_not_sent_to_the_client(tmp_path: Path) -> None:
    with talking(tmp_path, sdk="print('printed'); os.system('echo from a child')") as talk:
        talk.send(0, "initialize", initialize("2025-06-18"))
        assert talk.hear()["id"] == 0
        assert talk.end() == []
        err = _pipe(talk.process.stderr).read()
        assert b"printed" in err
        assert b"from a child" in err

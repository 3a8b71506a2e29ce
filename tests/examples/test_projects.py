"""The examples that are small projects: each README's commands do what it says, and manifests are valid."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from anyio.streams.text import TextReceiveStream

import tidings
from tests.examples.programs import EXAMPLES, PATIENT, run
from tests.ports import free_port

BIN = Path(sys.executable).parent
SECONDS = 100
pytestmark = pytest.mark.anyio


def console(project: str) -> dict[str, list[str]]:
    """The commands of a README, and the lines that each prints."""
    found: dict[str, list[str]] = {}
    text = (EXAMPLES / project / "README.md").read_text("utf-8")
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                printed = found.setdefault(line[2:], [])
            else:
                printed.append(line)
    return found


def command(project: str, beginning: str) -> str:
    """The one command of a README that begins so."""
    (line,) = [line for line in console(project) if line.startswith(beginning)]
    return line


def as_stated(printed: str, stated: list[str]) -> bool:
    """Whether lines were printed as a README has them; times differ, and `…` stands for anything."""
    pattern = re.escape("\n".join(stated)).replace("…", ".*")
    return re.fullmatch(re.sub(r"after\\ \d+\\\.\d+", r"after \\d+\\.\\d+", pattern), printed.strip()) is not None


@pytest.mark.parametrize(
    ("project", "line"), [("authentication", "python private_notes.py"), ("replicas", "python killing.py 4")]
)
def test_a_readme_shows_what_a_program_prints(project: str, line: str) -> None:
    _, program, *args = shlex.split(line)
    story = run(f"{project}/{program}", *args)
    assert (story.returncode, story.stderr) == (0, "")
    assert as_stated(story.stdout, console(project)[line]), story.stdout


def test_an_output_that_differs_from_the_readme_is_found() -> None:
    assert as_stated("a\n'x' after 0.31 s\nend: why\n", ["a", "'x' after 0.02 s", "end: …"])
    assert not as_stated("a\nb\n", ["a"])
    assert not as_stated("a\n'y' after 0.31 s\n", ["a", "'x' after 0.02 s"])


@asynccontextmanager
async def terminal(line: str, folder: Path, **variables: str) -> AsyncGenerator["Terminal"]:
    """A command that runs in a terminal of its own, until the end."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **variables}
    words = [*shlex.split(line)]
    async with await anyio.open_process(words, cwd=folder, env=environment, stderr=None) as process:
        try:
            yield Terminal(process)
        finally:
            process.terminate()
            await process.wait()


class Terminal:
    """What a command prints, line by line."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        self._texts = TextReceiveStream(process.stdout)
        self._rest = ""

    async def line(self) -> str:
        while "\n" not in self._rest:
            self._rest += await self._texts.receive()
        first, _, self._rest = self._rest.partition("\n")
        return first


async def listening(port: int) -> None:
    """Waits until somebody accepts connections."""
    while True:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            await anyio.sleep(0.05)
        else:
            return


def typed(line: str, folder: Path) -> str:
    """What a command prints that ends by itself."""
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.check_output(line, shell=True, cwd=folder, env=environment, text=True, timeout=SECONDS)


async def test_an_ordinary_server_is_live_behind_the_bridge(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "bridge/weather.py", tmp_path)
    port = free_port()
    steps = {word: command("bridge", word).replace(":8000", f":{port}") for word in ("tidings watch", "tidings read")}
    change = command("bridge", "printf")
    bridge = command("bridge", "tidings bridge").replace("--http", f"--http 127.0.0.1:{port}")
    with anyio.fail_after(SECONDS):
        async with terminal(bridge, tmp_path):
            await listening(port)
            async with terminal(steps["tidings watch"], tmp_path) as watching:
                assert await watching.line() == "rain"
                await anyio.to_thread.run_sync(typed, change, tmp_path)
                assert await watching.line() == "sun"
            told = json.loads(await anyio.to_thread.run_sync(typed, steps["tidings read"], tmp_path))
    assert "oslo: sun" in json.dumps(told)


async def test_a_note_lists_the_calls_to_make(tmp_path: Path) -> None:
    (tmp_path / "Home.md").write_text("- [ ] call Ada\n- [x] water the plants\n")
    (tmp_path / "Work.md").write_text("- [ ] call the bank\n")
    line = command("vault_automation", "python").replace("~/Notes", str(tmp_path))
    first, second = console("vault_automation")[command("vault_automation", "python")]
    with anyio.fail_after(SECONDS):
        async with terminal(line, EXAMPLES / "vault_automation") as script:
            assert await script.line() == first
            (tmp_path / "Work.md").write_text("- [x] call the bank\n")
            assert await script.line() == second
    readme = (EXAMPLES / "vault_automation/README.md").read_text("utf-8")
    assert f"```markdown\n{(tmp_path / 'Calls.md').read_text()}```" in readme


@contextmanager
def replica(bus: Path, folder: Path) -> Generator[int]:
    """One replica without containers, at this port."""
    port = free_port()
    (line,) = [line for line in console("replicas") if "--port 8001" in line]
    setting, *words = shlex.split(line.replace("/tmp/weather.db", str(bus)).replace("8001", str(port)))
    environment = {**os.environ, "BUS": setting.removeprefix("BUS="), "REPORTS": str(folder)}
    with subprocess.Popen([sys.executable, "-m", *words], cwd=EXAMPLES / "replicas", env=environment) as process:
        try:
            yield port
        finally:
            process.terminate()


async def test_what_one_replica_is_told_the_subscribers_of_all_hear(tmp_path: Path) -> None:
    bus = tmp_path / "weather.db"
    with anyio.fail_after(SECONDS), replica(bus, tmp_path) as one, replica(bus, tmp_path) as two:
        await listening(one)
        await listening(two)
        async with (
            tidings.connect(f"http://127.0.0.1:{one}/mcp", config=PATIENT) as reader,
            tidings.connect(f"http://127.0.0.1:{two}/mcp", config=PATIENT) as writer,
            httpx2.AsyncClient() as http,
        ):
            copies = reader.watch("weather://oslo")
            assert (await anext(copies)).text == "unknown"
            await writer.call_tool("report", {"city": "oslo", "text": "sun"})
            assert (await anext(copies)).text == "sun"
            # A probe comes to the address of a pod, which is none of the names for clients.
            probe = await http.get(f"http://127.0.0.1:{two}/ready", headers={"Host": "10.1.2.3:8000"})
            assert probe.status_code == 200


def checked(*words: object) -> None:
    """A linter has nothing to say."""
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_container_is_well_described() -> None:
    if not (BIN / "hadolint").exists():
        pytest.skip("hadolint is for Linux")
    checked(BIN / "hadolint", EXAMPLES / "replicas/Dockerfile")


def builder() -> str | None:
    """The program that builds containers here. Docker needs its daemon, too."""
    if shutil.which("docker") and not subprocess.run(["docker", "info"], check=False, capture_output=True).returncode:
        return "docker"
    return shutil.which("buildah")


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_container_is_built_from_the_wheel(tmp_path: Path) -> None:
    program = builder()
    if program is None:
        pytest.skip("neither Docker nor Buildah is at hand")
    shutil.copytree(EXAMPLES / "replicas", tmp_path / "examples/replicas")
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", EXAMPLES.parent]
    subprocess.run(wheel, check=True, capture_output=True)
    made = ["build", "-f", "examples/replicas/Dockerfile", "-t", "tidings-weather-test", "."]
    done = subprocess.run([program, *made], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_manifests_and_workflows_are_valid(tmp_path: Path) -> None:
    check = BIN / "check-jsonschema"
    checked(check, "--builtin-schema", "vendor.compose-spec", EXAMPLES / "replicas/compose.yaml")
    checked(check, "--builtin-schema", "vendor.github-workflows", *EXAMPLES.parent.glob(".github/workflows/*.yml"))
    manifest = EXAMPLES / "replicas/kubernetes.yaml"
    checked(BIN / "kubernetes-validate", "--strict", manifest)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(manifest.read_text().replace("readinessProbe", "readyProbe"))
    with pytest.raises(AssertionError, match="readyProbe"):
        checked(BIN / "kubernetes-validate", "--strict", wrong)

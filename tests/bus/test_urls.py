"""A bus by its URL."""

# pyright: reportPrivateUsage=false

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tidings import LiveServer, attach
from tidings._kit.lazy import install_command
from tidings.bus.memory import MemoryBus
from tidings.bus.nats import NatsBus
from tidings.bus.redis import RedisBus
from tidings.bus.sqlite import SqliteBus
from tidings.bus.urls import bus_from_url


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MemoryBus),
        ("memory:?entries=5&age=60", MemoryBus),
        ("sqlite:///tmp/bus.db", SqliteBus),
        ("sqlite:bus.db?durable=yes&poll=0.2&timeout=1", SqliteBus),
        ("nats://localhost", NatsBus),
        ("nats://ann:s3cret@one:4222,two:4222?prefix=news&replicas=3&buffer=5&timeout=1&entries=9", NatsBus),
        ("tls://broker:4222", NatsBus),
        ("redis://localhost:6379/0?prefix=news&buffer=5&poll=2&timeout=1&durable=off&db=1", RedisBus),
        ("rediss://ann:s3cret@host?ssl_check_hostname=no&age=60", RedisBus),
        ("valkey://host", RedisBus),
        ("unix:///run/redis.sock", RedisBus),
    ],
)
def test_each_text_names_its_bus(url: str, kind: type[Any]) -> None:
    assert type(bus_from_url(url)) is kind


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///tmp/bus.db", "/tmp/bus.db"),
        ("sqlite:////tmp/bus.db", "/tmp/bus.db"),
        ("sqlite:/tmp/bus.db", "/tmp/bus.db"),
        ("sqlite:///tmp/a%20bus%3F.db", "/tmp/a bus?.db"),
        ("sqlite:bus.db", str(Path("bus.db").absolute())),
        ("sqlite:folder/bus.db", str(Path("folder/bus.db").absolute())),
    ],
)
def test_a_file_is_named_from_the_root_or_from_here(url: str, path: str) -> None:
    bus = bus_from_url(url)
    assert isinstance(bus, SqliteBus)
    assert bus._place == path


def test_the_history_is_as_the_options_say() -> None:
    bus = bus_from_url("memory:?entries=5&age=60")
    assert isinstance(bus, MemoryBus)
    assert (bus._log._room, bus._log._age) == (5, 60.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "A bus needs a URL"),
        ("changes.db", "such as 'memory:', 'sqlite:///path/to/bus.db'"),
        ("/tmp/changes.db", "A bus needs a URL"),
        ("reddis://s3cret@host", "no bus 'reddis'. Did you mean 'redis'?"),
        ("kafka://s3cret@host", "There are: memory, nats"),
        ("memory:s3cret", "only options may follow"),
        ("memory:?prefix=s3cret", "no option 'prefix'. There are: age, entries"),
        ("memory:?entrys=5", "Did you mean 'entries'?"),
        ("sqlite:", "needs a file"),
        ("sqlite://", "three slashes"),
        ("sqlite:///", "needs a file"),
        ("sqlite::memory:", "One in memory is named 'memory:'"),
        ("sqlite://bus.db", "three slashes"),
        ("sqlite:bus.db?entries=many", "entries must be a whole number, not 'many'"),
        ("sqlite:bus.db?poll=often", "poll must be a number of seconds, not 'often'"),
        ("sqlite:bus.db?poll=nan", "poll must be a number of seconds, not 'nan'"),
        ("sqlite:bus.db?poll=0", "more than 0 seconds, not 0.0"),
        ("sqlite:bus.db?durable=perhaps", "durable must be yes or no, not 'perhaps'"),
        ("nats://ann:s3cret@host?replica=3", "no option 'replica'. Did you mean 'replicas'?"),
        ("nats://ann:s3cret@host:port", "The URL of a NATS server is not valid"),
        ("redis://ann:s3cret@host?prefixx=a", "Did you mean 'prefix'?"),
        ("redis://ann:s3cret@host?ssl_certfile=a", "no option 'ssl_certfile'"),
        ("redis://ann:s3cret@host?prefix={a}", "without braces, not '{a}'"),
        ("redis://ann:s3cret@host:port", "port of a Redis must be a number"),
    ],
)
def test_what_is_wrong_with_a_text_is_said_without_its_secrets(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        bus_from_url(text)
    assert "s3cret" not in str(caught.value)


@pytest.mark.anyio
async def test_a_server_takes_the_url_of_its_bus(tmp_path: Path) -> None:
    for live in (
        LiveServer("news", bus=f"sqlite:{tmp_path}/one.db")._live,
        attach(MCPServer("news"), bus=f"sqlite://{tmp_path}/two.db"),
    ):
        async with live.running():
            await live.notify.tools_changed()
    assert {path.name for path in tmp_path.iterdir()} == {"one.db", "two.db"}


def test_a_server_refuses_a_text_that_names_no_bus() -> None:
    with pytest.raises(ValueError, match="no bus 'reddis'"):
        LiveServer("news", bus="reddis://host")


def loaded_after(program: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_an_engine_is_imported_only_when_it_is_asked_for() -> None:
    modules = loaded_after("from tidings.bus.urls import bus_from_url; bus_from_url('memory:')")
    assert not {"redis", "nats", "tidings.bus.redis.bus", "tidings.bus.nats", "tidings.bus.sqlite"} & set(modules)
    assert "redis" in loaded_after("from tidings.bus.urls import bus_from_url; bus_from_url('redis://host')")


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    program = """
import sys
sys.modules["redis"] = None
from tidings.bus.urls import bus_from_url
try:
    bus_from_url("redis://host")
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == (f"A RedisBus needs the package redis: {install_command('redis')}")

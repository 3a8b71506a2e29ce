"""What a host declares, listens to and reacts to: looked at in one conversation with `tidings vault`."""

import asyncio
import json
from dataclasses import dataclass, replace

from tests.hosts.checks import CALM, SOON, cursor, wait
from tests.hosts.model import Call
from tests.hosts.stage import Stage, uri
from tests.hosts.wire import Json

_META = "io.modelcontextprotocol/"


@dataclass(frozen=True)
class Findings:
    """What was seen of one host over one transport."""

    protocol: str
    declares: str
    listens: str
    while_idle: str
    """What a change does that no tool waits for."""
    waiting: str
    """How `wait_for_change` went."""
    hints: str
    """What the model was told in the result of another tool."""


async def survey(stage: Stage) -> Findings:
    """Lets the host's model wait for a note, changes it, and then changes other notes while the host is idle."""
    model = stage.model
    model.plan["watch-it"] = [wait("Note 0")]
    async with stage.chat() as chat:
        typed = asyncio.ensure_future(stage.prompt("watch-it"))
        await stage.until(lambda: stage.wire.messages("tools/call"), SOON, "the host calls the tool")
        await asyncio.sleep(3.0)
        stage.vault.append("Note 0", "A line of the lab.")
        await typed
        await model.until(lambda: "+A line of the lab." in model.requests[-1].news, SOON, "the model sees the change")
        told = model.requests[-1]
        cursor(told.news)
        waiting = "a task; its end starts a turn" if told.woken else "the call waits; its result has the difference"
        if told.woken != bool(stage.wire.tasks()):
            raise AssertionError("a task was given, but did not wake the model; or the other way round")
        await chat.quiet()
        while_idle = await _while_idle(stage)
        hints = await _hints(stage)
    return replace(_introduction(stage), while_idle=while_idle, waiting=waiting, hints=hints)


async def _while_idle(stage: Stage) -> str:
    asked, before = len(stage.model.requests), len(stage.wire.messages())
    stage.vault.append("Note 1", "Nobody waits for this one.")
    stage.vault.write("New note", "# New note\n")  # Changes the list of resources, too.
    await asyncio.sleep(CALM)
    if len(stage.model.requests) > asked:
        return f"calls the model: {stage.model.requests[asked].news[:200]}"
    after = stage.wire.messages()[before:]
    lists = sorted({each.method for each in after if each.side == "host" and each.method.endswith("/list")})
    told = sorted({each.method for each in after if each.side == "server" and each.method.endswith("changed")})
    done = f"reads {_code(lists)} again" if lists else "does nothing"
    return f"no turn; told of {_code(told)}, it {done}" if told else f"no turn; it {done}"


async def _hints(stage: Stage) -> str:
    """Lets the model read a note, changes it, and looks at the result of the next tool."""
    stage.model.plan |= {"read-it": [Call("read", {"paths": ["Note 2.md"]})], "list-it": [Call("tags")]}
    await stage.prompt("read-it")
    stage.vault.append("Note 2", "After it was read.")
    await asyncio.sleep(3.0)
    await stage.prompt("list-it")
    result = stage.model.requests[-1].news
    sent = next(answer for _, answer in reversed([*stage.wire.answers("tools/call")])).result
    assert uri("Note 2") in json.dumps(sent["content"]), sent
    if uri("Note 2") in result:
        return "in the result of the next tool"
    assert json.dumps(sent["structuredContent"], separators=(",", ":")) in result, result
    return "not shown: of a result with structured content, it shows only that"


def _introduction(stage: Stage) -> Findings:
    """Returns what the first messages tell."""
    wire = stage.wire
    first = next(each for each in wire.messages() if each.method in {"initialize", "server/discover"})
    if first.method == "initialize":
        answer = next(answer for _, answer in wire.answers("initialize"))
        protocol = f"legacy, {answer.result['protocolVersion']}"
        capabilities, client = first.params["capabilities"], first.params["clientInfo"]
    else:
        meta = wire.messages("tools/call")[0].params["_meta"]
        protocol = f"modern, {meta[_META + 'protocolVersion']}"
        capabilities, client = meta[_META + "clientCapabilities"], meta[_META + "clientInfo"]
    assert client["version"] == stage.host.short_version, f"{client} is not the version that was installed"
    listens = [kind for each in wire.messages("subscriptions/listen") for kind in each.params["notifications"]]
    listens += [each.params["uri"] for each in wire.messages("resources/subscribe")]
    return Findings(protocol, _code(_names(capabilities)), _code(sorted(set(listens))) or "nothing", "", "", "")


def _names(capabilities: Json) -> list[str]:
    """Returns `a.b` for each capability, down to the first level that says something."""
    names: list[str] = []
    for name, value in capabilities.items():
        inner = sorted(value) if isinstance(value, dict) else []
        names += [f"{name}.{each}" for each in inner] or [name]
    return names


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)

"""The world of a simulation: replicas behind a balancer, clients of both eras, a publisher, and the truth.

Replicas are `LiveServer`s under uvicorn. They read the truth, as servers read a database, and share a `Broker`; one
that is alone may have the `MemoryBus`. Clients are the product's own (one that watches, one that subscribes and keeps
what it has read), and the SDK's, which listens to everything that it is allowed to hear. Whatever is wrong is added to
`World.wrong`.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import httpx2
from mcp import Client as StockClient
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver.prompts import Prompt

from tests.simulation.bus import Broker, SimulatedBus
from tests.simulation.loop import Node, VirtualLoop
from tidings import LiveClient, LiveServer, connect
from tidings._kit.uvicorn_seam import HttpServer
from tidings.changes import Change, ResourceUpdated
from tidings.client import Backoff, ClientConfig, Timeouts
from tidings.client.events import StateChanged
from tidings.errors import NotSupported, TidingsError
from tidings.server import Coalesce, Limits
from tidings.server.policy import RequestContext
from tidings.server.waking.tool import TOOL_NAME

BALANCER = 8000
"""The port of the balancer, which sends each connection to the next replica."""

HEALTH_SECONDS: Final = 3.0
"""Seconds after which the balancer sends nobody to a replica that does not answer."""

TRIES: Final = 2.0
"""Seconds that the publisher waits for a replica before it asks another."""

WITHOUT_BUS: Final = 2.0
"""Seconds after which a replica that is cut off from its bus sends its subscribers away."""

FRESH_MARGIN: Final = 1.0
"""Seconds that a stored change may be on its way. `wait_fresh()` is judged by what was stored earlier."""

FRESH_MARGIN_WITHOUT_BUS: Final = FRESH_MARGIN + WITHOUT_BUS + 3.0
"""The same while a replica may be cut off from its bus, which it looks for every second, and tries again."""

OVERDUE_SECONDS: Final = 19.0
"""Seconds after which a client must know that a stream is overdue: 1.25 times the interval of keep-alives."""

CONFIG: Final = ClientConfig(
    timeouts=Timeouts(connect=5, request=10, total=60, ping=3, ping_interval=10),
    backoff=Backoff(delays=(0.1, 0.3, 1.0), tries=None),
)

Kind = Literal["watch", "keep", "exchange", "listen"]


@dataclass(frozen=True)
class ClientPlan:
    """A client: what it does, in which era, and whether it may see the secret resource."""

    name: str
    kind: Kind
    era: str
    is_owner: bool = False


@dataclass(frozen=True)
class WorldPlan:
    """What there is in a world."""

    seed: int
    replicas: int
    has_broker: bool
    coalesce: Coalesce
    notes: int
    clients: tuple[ClientPlan, ...]
    is_private: bool = True
    """The secret resource is for its owner alone, so that cursors are sealed. Otherwise it is for everybody."""
    subscriptions: int = 10_000
    """So many fit into one stream: a client that wants more has several."""
    counts_sessions: bool = False
    """Nothing goes wrong, so that no legacy session may be left behind."""


@dataclass
class Truth:
    """What the clients' copies must equal in the end."""

    notes: dict[str, int]
    tools: set[str] = field(default_factory=lambda: {"t0"})
    has_prompts: bool = True
    has_resources: bool = True
    stored: dict[str, list[tuple[float, int]]] = field(default_factory=dict[str, list[tuple[float, int]]])
    """For each resource, the times at which a change of it was stored, and its value then."""

    def least(self, uri: str, before: float) -> int:
        """Returns the oldest value that a copy may have if it has all that was stored `before`."""
        return max((value for at, value in self.stored.get(uri, ()) if at < before), default=0)


class Replica:
    """A server process: one life after another, on one port."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.name = f"r{number}"
        self.port = 8001 + number
        self.lives = 0
        self.is_held = False  # A fault is under way that stops and starts it.
        self.node = Node(self.name)
        self.node.dead = True
        self.bus: SimulatedBus | None = None
        self.mcp: LiveServer
        self._server: HttpServer
        self._serving: asyncio.Task[None]

    @property
    def answers(self) -> bool:
        return not self.node.dead and self.node.paused_since is None and self.port in self.world.loop.network.listeners

    @property
    def in_rotation(self) -> bool:
        since = self.node.paused_since
        return not self.node.dead and (since is None or self.world.loop.time() - since < HEALTH_SECONDS)

    def start(self) -> None:
        if not self.node.dead:
            return
        self.lives += 1
        self.node = Node(f"{self.name}.{self.lives}")
        line, self.bus = self.bus and self.bus.line, None
        if self.world.plan.has_broker:
            self.bus = SimulatedBus(self.world.broker)
            if line is not None:
                self.bus.line = line
                line.cut_off = False
        self._serving = self.world.loop.on(self.node, self._serve())
        self.world.trace(f"start {self.node}")

    async def _serve(self) -> None:
        try:
            await self._serve_app()
        except SystemExit:
            if self.bus is None:
                raise
            # It could not reach its bus. The supervisor of a process that ends starts another.
            self.node.dead = True
            self.world.later(0.5, self.start)

    async def _serve_app(self) -> None:
        self.mcp = self._make()
        options: dict[str, Any] = {"loop": "none", "http": "h11", "lifespan": "on", "log_config": None}
        self._server = HttpServer(self.mcp.asgi(), host="127.0.0.1", port=self.port, access_log=False, **options)
        await self._server.serve()

    def _make(self) -> LiveServer:
        world = self.world
        mcp = LiveServer(
            "simulated",
            bus=self.bus,
            coalesce=world.plan.coalesce,
            limits=Limits(without_bus=WITHOUT_BUS, subscriptions=world.plan.subscriptions),
            authorize=_may_hear if world.plan.is_private else None,
            log_level="CRITICAL",
        )

        @mcp.resource("note://{name}")
        def note(name: str) -> str:
            return str(world.truth.notes[f"note://{name}"])

        @mcp.resource("secret://{name}")
        def secret(name: str) -> str:
            return str(world.truth.notes[f"secret://{name}"])

        for name in sorted(world.truth.tools):
            mcp.add_tool(_tool, name=name)
        mcp.add_prompt(Prompt.from_function(_tool, name="p0"))
        gone = {"prompts/": not world.truth.has_prompts, "resources/": not world.truth.has_resources}
        handlers = mcp._lowlevel_server._request_handlers
        for method in [method for method in handlers if any(method.startswith(name) for name in gone if gone[name])]:
            del handlers[method]
        return mcp

    def kill(self, *, told: bool = True) -> None:
        self.world.trace(f"kill {self.node}")
        self.world.loop.kill(self.node, told=told)

    async def stop(self) -> None:
        """Ends it in good order, as SIGTERM does."""
        if self.node.dead:
            return
        self.world.trace(f"stop {self.node}")
        if hasattr(self, "_server"):
            self._server.stop()
        await asyncio.wait([self._serving], timeout=10)
        if self._serving.done():
            self.node.dead = True

    @property
    def sessions(self) -> int:
        """The number of its legacy sessions."""
        return len(self.mcp.session_manager._server_instances)


def _tool() -> str:
    return ""


def _may_hear(ctx: RequestContext, uri: str) -> bool:
    return _may(ctx.request.headers.get("x-user", "") if ctx.request is not None else "", uri)


def _may(user: str, uri: str) -> bool:
    """Returns whether a user may hear of a resource. A prefix is allowed, and each resource is asked for."""
    return user == "owner" or uri.endswith("*") or not uri.startswith("secret:")


class Client:
    """A client process: one life after another."""

    def __init__(self, world: "World", plan: ClientPlan) -> None:
        self.world, self.plan = world, plan
        self.user = "owner" if plan.is_owner else "guest"
        self.lives = 0
        self.node = Node(plan.name)
        self.live: LiveClient | None = None
        self.copies: dict[str, str] = {}
        self.error: BaseException | None = None
        self.url = f"http://127.0.0.1:{BALANCER}/mcp"
        self.uris = [uri for uri in world.truth.notes if self._may(uri)]
        self._task: asyncio.Task[None]

    def _may(self, uri: str) -> bool:
        return not self.world.plan.is_private or _may(self.user, uri)

    def start(self) -> None:
        self.lives += 1
        self.node = Node(f"{self.plan.name}.{self.lives}")
        self.live, self.copies, self.error = None, {}, None
        lives: dict[Kind, Callable[[], Any]] = {
            "watch": self._watch,
            "keep": self._keep,
            "exchange": self._exchange,
            "listen": self._listen,
        }
        self._task = self.world.loop.on(self.node, self._run(lives[self.plan.kind]))
        self.world.trace(f"start {self.node} {self.plan.kind} {self.plan.era}")

    async def _run(self, life: Callable[[], Any]) -> None:
        try:
            for _ in range(100):
                try:
                    return await life()
                except NotSupported:  # It began while the server had no resources.
                    await asyncio.sleep(1)
        except Exception as error:  # noqa: BLE001 - it is reported in the end
            self.error = error
            self.world.trace(f"{self.node} ended: {error!r}")

    def kill(self) -> None:
        self.world.trace(f"kill {self.node}")
        self.world.loop.kill(self.node)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task], timeout=30)
        if self.plan.kind == "listen" and not self._task.done():  # The SDK loses a cancellation in its handshake.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=30)

    @contextlib.asynccontextmanager
    async def _connected(self) -> Any:
        headers = {"x-user": self.user}
        async with connect(self.url, era=self.plan.era, config=CONFIG, headers=headers) as live:
            live.on(StateChanged, self._state_changed)
            self.live = live
            self.world.surprise()
            yield live

    def _state_changed(self, event: StateChanged) -> None:
        self.world.trace(f"{self.node} {event.new}")
        if event.new == "connected":
            self.world.surprise()

    async def _watch(self) -> None:
        async with self._connected() as live:
            async for read in live.watch(self.uris):
                self.copies[read.uri] = read.text
                self.world.trace(f"{self.node} has {read.uri} {read.text}")

    async def _keep(self) -> None:
        """Subscribes first, and reads each resource once. An update must drop the copy."""
        async with self._connected() as live:
            await self.subscribe_and_read(live, self.uris)
            await asyncio.Event().wait()

    async def _exchange(self) -> None:
        """Does the same, and while things go wrong, unsubscribes now and then and subscribes again."""
        async with self._connected() as live:
            await self.subscribe_and_read(live, self.uris)
            dice = random.Random(f"{self.world.plan.seed} {self.node}")
            while True:
                await asyncio.sleep(dice.uniform(0.05, 0.8))
                if self.world.is_raging:
                    some = dice.sample(self.uris, dice.randint(1, len(self.uris)))
                    await live.unsubscribe(some)
                    await self.subscribe_and_read(live, some)

    async def subscribe_and_read(self, live: LiveClient, uris: list[str]) -> None:
        while True:
            try:
                await live.subscribe(uris)
                break
            except TidingsError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(0.5)
        for uri in uris:
            with contextlib.suppress(TidingsError):
                await live.read_resource(uri)

    async def _listen(self) -> None:
        """Listens with the SDK's client, and begins again when that ends."""
        while True:
            try:
                async with contextlib.AsyncExitStack() as stack:
                    http = await stack.enter_async_context(
                        httpx2.AsyncClient(headers={"x-user": self.user}, timeout=httpx2.Timeout(10, read=60))
                    )
                    await self._listen_once(streamable_http_client(self.url, http_client=http))
            except Exception:  # noqa: BLE001 - whatever it was, it goes on
                await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                if asyncio.current_task() is not None and self.world.closing:
                    raise
                await asyncio.sleep(0.5)  # The SDK cancels its caller when a server dies.

    async def _listen_once(self, transport: Any) -> None:
        is_legacy = self.plan.era == "legacy"
        everything = ["note://*", "secret://*"]
        mode = "legacy" if is_legacy else self.plan.era
        async with StockClient(transport, mode=mode, message_handler=self._message, cache=None) as stock:
            if is_legacy:
                for uri in (*everything, *self.world.truth.notes):
                    with contextlib.suppress(Exception):
                        await stock.subscribe_resource(uri)
                await asyncio.Event().wait()
            async with stock.listen(tools_list_changed=True, resource_subscriptions=everything) as news:
                async for change in news:
                    self._hears(change)

    async def _message(self, message: Any) -> None:
        if (uri := getattr(getattr(message, "params", None), "uri", None)) is not None:
            self._hears(ResourceUpdated(str(uri)))

    def _hears(self, change: Change) -> None:
        self.world.trace(f"{self.node} hears {change}")
        if isinstance(change, ResourceUpdated) and not self._may(change.uri):
            self.world.wrong.append(f"{self.node} heard of {change.uri}, to which it has no right")

    # What it has, compared with the truth.

    def _copies(self) -> dict[str, str | None]:
        assert self.live is not None
        if self.plan.kind == "watch":
            return {uri: self.copies.get(uri) for uri in self.uris}
        reads = {uri: self.live.cache.get_resource(uri) for uri in self.uris if self.live.is_subscribed(uri)}
        return {uri: read.text for uri, read in reads.items() if read is not None}

    def problems(self) -> Iterator[str]:
        """Yields what is not as it is in truth."""
        if self.plan.kind == "listen":
            return
        if self.error is not None or self.live is None:
            yield f"{self.node} has ended or never began: {self.error!r}"
            return
        if not self.live.connected:
            yield f"{self.node} is {self.live.state}"
        truth = self.world.truth
        for uri, text in self._copies().items():
            if text != str(truth.notes[uri]):
                yield f"{self.node} has {uri} = {text}, and it is {truth.notes[uri]}"
        if (tools := sorted(tool.name for tool in self.live.tools if tool.name != TOOL_NAME)) != sorted(truth.tools):
            yield f"{self.node} lists the tools {tools}, and they are {sorted(truth.tools)}"
        if bool(self.live.prompts) != truth.has_prompts:
            yield f"{self.node} lists {len(self.live.prompts)} prompts"

    async def wait_fresh(self) -> None:
        """Waits until it is fresh, and notes it if that was a lie."""
        began, live = self.world.loop.time(), self.live
        if live is None or self.node.dead:
            return
        try:
            async with asyncio.timeout(30):
                await live.wait_fresh()
        except (TidingsError, TimeoutError):
            return
        if self.world.is_excused(began):
            return
        margin = FRESH_MARGIN_WITHOUT_BUS if began <= self.world.without_bus_until else FRESH_MARGIN
        self.world.trace(f"{self.node} is fresh")
        if not self.world.truth.has_resources:
            return  # The copies are those of a server that is gone.
        for uri, text in self._copies().items():
            least = self.world.truth.least(uri, began - margin)
            if int(text or 0) < least:
                self.world.wrong.append(f"{self.node} called {uri} fresh at {text}, but {least} was stored before")


class World:
    """Everything that a seed can do something to."""

    def __init__(self, loop: VirtualLoop, plan: WorldPlan, trace: Callable[[str], None]) -> None:
        self.loop, self.plan, self.trace = loop, plan, trace
        self.broker = Broker(loop.time)
        self.first_log = self.broker.copy()
        uris = [*(f"note://n{number}" for number in range(plan.notes)), "secret://s0"]
        self.truth = Truth(dict.fromkeys(uris, 0))
        self.replicas = [Replica(self, number) for number in range(plan.replicas)]
        self.clients = [Client(self, client) for client in plan.clients]
        self.wrong: list[str] = []
        self.closing = False
        self.hung: list[Replica] = []
        self._excused_until = 0.0
        self.without_bus_until = 0.0
        self.is_raging = False
        self._surprises = random.Random(f"{plan.seed} surprises")
        self._surprises_left = 6
        self._turns = 0
        self._publishing: set[asyncio.Task[None]] = set()
        loop.network.balancers[BALANCER] = self._next

    @contextlib.contextmanager
    def excused(self, seconds: float) -> Iterator[None]:
        """Surrounds a fault in which a replica may not know of a change: `wait_fresh()` asks any replica."""
        until = self.loop.time() + seconds + FRESH_MARGIN
        self._excused_until = max(self._excused_until, until)
        yield

    def is_excused(self, at: float) -> bool:
        return at <= self._excused_until

    def later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Calls something that belongs to no node, unless the world is being closed by then."""
        self.loop.network.at(self.loop.time() + seconds, lambda: self.closing or callback())

    # The balancer.

    def _next(self, node: Node | None) -> int | None:
        ready = [replica for replica in self.replicas if replica.in_rotation]
        self._turns += 1
        return ready[self._turns % len(ready)].port if ready else None

    # Changes.

    def change(self, what: str, replica: int) -> None:
        """Changes the truth, and publishes that: first at one replica, then at others until it is stored."""
        if what.startswith("t"):
            self._change_tools(what)
            return
        self.truth.notes[what] += 1
        value = self.truth.notes[what]
        self.trace(f"change {what} {value}")
        task = self.loop.create_task(self._publish(what, value, replica))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    def surprise(self) -> None:
        """Changes something while a client that has just connected subscribes and reads."""
        if not self._surprises_left or self._surprises.random() < 0.3:
            return
        self._surprises_left -= 1
        note, replica = self._surprises.choice(list(self.truth.notes)), self._surprises.randrange(len(self.replicas))
        self.later(self._surprises.uniform(0, 0.1), lambda: self.is_raging and self.change(note, replica))

    def _change_tools(self, name: str) -> None:
        self.truth.tools ^= {name}
        self.trace(f"change tools {sorted(self.truth.tools)}")
        for replica in self.replicas:
            if not replica.node.dead and hasattr(replica, "mcp"):
                self.loop.network.call(replica.node, self._set_tool, replica.mcp, name)

    def _set_tool(self, mcp: LiveServer, name: str) -> None:
        has_it = any(tool.name == name for tool in mcp._tool_manager.list_tools())
        if name in self.truth.tools and not has_it:
            mcp.add_tool(_tool, name=name)
        elif name not in self.truth.tools and has_it:
            mcp.remove_tool(name)

    async def _publish(self, uri: str, value: int, first: int) -> None:
        for turn in range(first, first + 1000):
            replica = self.replicas[turn % len(self.replicas)]
            if not replica.answers:
                await asyncio.sleep(0.1)
                continue
            task = self.loop.on(replica.node, replica.mcp.notify.resource_updated(uri))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # Retrieved, even if it is late.
            await asyncio.wait([task], timeout=TRIES)
            # What the replica has taken is stored, unless it kept it in its own memory and died.
            is_taken = task.done() and not task.cancelled() and task.exception() is None
            if is_taken and (self.plan.has_broker or not replica.node.dead):
                self.truth.stored.setdefault(uri, []).append((self.loop.time(), value))
                self.trace(f"stored {uri} {value} at {replica.node}")
                return
            await asyncio.sleep(0.1)
        self.wrong.append(f"{uri} {value} was never stored")

    @property
    def is_stored(self) -> bool:
        return not self._publishing

    # Beginning and ending.

    async def begin(self) -> None:
        for replica in self.replicas:
            replica.start()
        await asyncio.sleep(0.5)
        self.first_log = self.broker.copy()
        for client in self.clients:
            client.start()

    def problems(self) -> list[str]:
        return [problem for client in self.clients for problem in client.problems()]

    async def close(self) -> None:
        """Ends all clients and then all replicas in good order, and notes what they leave behind."""
        self.closing = True
        await asyncio.gather(*(client.stop() for client in self.clients))
        await asyncio.sleep(1)
        for client in self.clients:
            self._note_rest(client.node)
        if self.plan.counts_sessions and (count := sum(replica.sessions for replica in self.replicas)):
            self.wrong.append(f"{count} legacy sessions were left behind")
        for replica in self.hung:
            self.loop.resume(replica.node)
        await asyncio.gather(*(replica.stop() for replica in self.replicas))
        await asyncio.sleep(1)
        for replica in self.replicas:
            replica.node.dead = False
            self._note_rest(replica.node)
            replica.node.dead = True

    def _note_rest(self, node: Node) -> None:
        for task in self.loop.tasks_of(node):
            self.wrong.append(f"{node} left the task {getattr(task.get_coro(), '__qualname__', task)}")
        for connection in self.loop.network.of(node):
            if any(end.node is node and not end.closing for end in connection.ends):
                self.wrong.append(f"{node} left the connection {connection}")

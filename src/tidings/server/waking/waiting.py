"""Waits: the subscribers behind the tool `wait_for_change`.

A call with the tasks extension becomes a task, which any replica can serve: its record has the subscriptions, a cursor
and the texts that its reader knows. It ends when it is asked for: only then are the resources read that changed, with
the rights of the one who asks. A call without tasks is answered within `Waking.longest_call`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tidings._kit.tasks import Background
from tidings._kit.text import counted, iso
from tidings.bus import Entry
from tidings.changes import Cursor, Filter, ResourceUpdated
from tidings.errors import InvalidUri, LimitReached, NotAuthorized, ResourceNotFound, TidingsError, TransportError
from tidings.server.budget import Place, subscription_bytes
from tidings.server.config import Waking
from tidings.server.core import Core, scope_of, weight_of
from tidings.server.notify import ToolCaller
from tidings.server.policy import RequestContext, client_key, client_name, expiry_of, holder_of, origin_of, principal_of
from tidings.server.subscriber import Collector, Frame
from tidings.server.waking import tool
from tidings.server.waking.store import Json, TaskRecord, TaskStore, UnknownTask
from tidings.server.waking.texts import MOST_TEXTS, KnownTexts, ResourceReader

_WAIT_BYTES: Final = 6_000  # Beside its subscriptions: the subscriber, its timer, and its task.
_LOOK_SECONDS: Final = 0.05
_MOST_ORIGINS: Final = 1_000  # Callers of whom it is known what they have waited for.
_MOST_AWAITED: Final = 200  # Subscriptions of one of them. Older ones are forgotten.
_NOTE_KEY: Final = "com.anthropic/agent-task"  # Claude Code shows its model no status message, but a note here.
_UNASKED_SECONDS: Final = 60.0  # A task that is over, and that nobody asks for, is let go of after this time.


class Gathering(Collector):
    """Gathers changes (its origin's own only if `own`), and is ready when they are quiet, or the log was lost."""

    __slots__ = (
        *("_end_of_quiet", "_timer", "_waking", "before", "changed"),
        *("is_ready", "lost", "origin", "own", "when_ready"),
    )

    def __init__(self, waking: Waking, origin: str, *, own: bool = False, **subscriber: Any) -> None:
        super().__init__(features=frozenset(), **subscriber)
        self._waking = waking
        self._timer: asyncio.TimerHandle | None = None
        self._end_of_quiet = 0.0
        self.origin = origin
        self.own = own
        self.when_ready: Callable[[], object] = lambda: None
        self.is_ready = False
        self.changed: dict[str, None] = {}
        self.before: dict[str, str] = {}  # The texts before their changes, of resources that a prefix covers.
        self.lost = False  # It is not known what has changed.

    def take(self) -> list[str]:
        changed, self.changed = self.changed, {}
        self.before, self.is_ready, self.lost, self._end_of_quiet = {}, False, False, 0.0
        return list(changed)

    def _write(self, frames: Sequence[Frame]) -> asyncio.Future[Any] | None:
        for frame in frames:
            if isinstance(frame.change, ResourceUpdated) and (self.own or frame.origin != self.origin):
                uri = frame.change.uri
                known = uri in self.changed or uri in self.subscriptions or len(self.before) >= MOST_TEXTS
                if frame.before is not None and not known:
                    self.before[uri] = frame.before
                self.changed[uri] = None
        if len(self.changed) > max(self.limits.backlog, len(self.subscriptions)):
            self.changed.clear()
            self.lost = True
            self._ready()
        elif self.changed and not self.is_ready:
            self._wait_for_quiet()
        return None

    def _wait_for_quiet(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._end_of_quiet:
            self._end_of_quiet = now + self._waking.longest_quiet
        self._set_timer(min(self._waking.quiet, max(self._end_of_quiet - now, 0.0)), self._ready)

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def deliver_everything(self, place: Cursor, cursor: str | None) -> None:
        self.lost = True
        self._ready()

    def _ready(self) -> None:
        if not self.is_ready and not self._gone:
            self.is_ready = True
            self.when_ready()

    def gone(self) -> None:
        super().gone()
        if self._timer is not None:
            self._timer.cancel()

    def end(self, reason: TidingsError | None = None) -> None: ...


class Wait(Gathering):
    """The changes of what a call of the tool waits for. It is also ready when its time is up."""

    __slots__ = ("_core", "_last_moment", "_place", "cursor", "interrupted", "until")

    def __init__(
        self, ctx: RequestContext, core: Core, waking: Waking, wanted: "_Wanted", *, place: Place, since: str
    ) -> None:
        scope = scope_of(ctx)
        super().__init__(
            waking,
            origin_of(scope),
            own=wanted.own,
            client=client_name(ctx),
            principal=principal_of(scope),
            transport="task",
            subscriptions=set(wanted.uris),
            limits=core.policy.limits,
            screen=core.policy.screen(ctx),
        )
        self._core = core
        self._place = place
        # By the clock of the loop, because the other one may be set back.
        self._last_moment = asyncio.get_running_loop().time() + wanted.until - time.time()
        self.until = wanted.until
        self.cursor = since  # Of a reader that has everything that was gathered.
        self.interrupted = False  # It ended before its time.

    @property
    def is_settling(self) -> bool:
        return bool(self.changed) and not self.is_ready

    @property
    def seconds_left(self) -> float:
        return max(self._last_moment - asyncio.get_running_loop().time(), 0.0)

    def begin(self) -> None:
        """Waits from now on, also after something was gathered that did not count."""
        self.is_ready, self._end_of_quiet = False, 0.0
        if self.lost or self.interrupted or not (self.seconds_left or self.changed):
            self._ready()
        elif self.changed:
            self._wait_for_quiet()
        else:
            self._set_timer(self.seconds_left, self._ready)

    def _write(self, frames: Sequence[Frame]) -> asyncio.Future[Any] | None:
        for frame in frames:
            self.cursor = frame.cursor or self.cursor
        return super()._write(frames)

    def deliver_everything(self, place: Cursor, cursor: str | None) -> None:
        self.cursor = cursor or self.cursor
        super().deliver_everything(place, cursor)

    def _ready(self) -> None:
        if not self.is_ready and not self._gone:
            self._set_timer(self.seconds_left + _UNASKED_SECONDS, self.end)
        super()._ready()

    def settle(self) -> str:
        """Returns the cursor of a reader that has everything that was gathered."""
        if not self.changed and not self.lost and not self.busy:
            self.cursor = self._core.cursor_text(self._core.position)  # Everything up to there was of others.
        return self.cursor

    def gone(self) -> None:
        super().gone()
        self._place.release()

    def end(self, reason: TidingsError | None = None) -> None:
        self.interrupted = self.is_ready = True
        self.when_ready()

    def _forbidden(self, subscription: str) -> None:
        self.lost = True  # The reader finds out by itself that it may no longer read it.
        self._ready()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The resources that a caller waits for, until when, and if changes of its own count."""

    uris: list[str]
    until: float
    own: bool


class Waits:
    """The waits of this process."""

    def __init__(self, core: Core, store: TaskStore, waking: Waking, reader: ResourceReader) -> None:
        self._core = core
        self._store = store
        self._waking = waking
        self._reader = reader
        self._texts = KnownTexts(core.records, waking.keep)
        self._held: dict[Wait, str] = {}  # With the client that each counts for.
        self._counts: Counter[str] = Counter()
        self._tasks: dict[str, Wait] = {}
        self._awaited: dict[str, Filter] = {}  # By origin: what each has waited for.
        self._turns: dict[str, asyncio.Lock] = {}  # Of tasks that somebody asks for now.
        self._background = Background()

    async def call(self, ctx: RequestContext, arguments: Json, *, as_task: bool) -> Json:
        """Returns the result of a call: a task, or what has changed. Raises `Refused`."""
        given, now = tool.checked(arguments), time.time()
        longest = self._waking.longest_task if as_task else self._waking.longest_call
        until = min(tool.end_of_wait(given.until, now), now + longest)
        try:
            wanted = _Wanted(await self._honoured(ctx, given.uris), until, given.own_changes)
            place, known = self._core.position, dict[str, str]()
            if given.since is not None:
                cursor, known = await self._texts.unmark(given.since, holder_of(scope_of(ctx)))
                place = await self._core.cursor_from(cursor)
                if place is None:
                    return self._lost()
            wait, known, absent = await self._first(ctx, place, wanted, known)
            kept = False
            try:
                if as_task:
                    task = await self._start_task(ctx, wait, place, known, absent)
                    kept = True
                    return task
                if absent and given.since is None:  # A name may be misspelled: it would wait in vain.
                    cursor = self._core.cursor_text(place)
                    return tool.absent_result(absent, await self._texts.mark(cursor, known, holder_of(scope_of(ctx))))
                return await self._wait_here(ctx, wait, known)
            finally:
                if not kept:
                    self._leave(wait)
        except TransportError:
            raise
        except TidingsError as error:
            raise tool.Refused(error.message) from error

    async def _honoured(self, ctx: RequestContext, asked: Sequence[str]) -> list[str]:
        try:
            uris = await self._core.policy.accepted(ctx, asked)
        except InvalidUri as error:
            raise InvalidUri(error.message + await self._reader.as_uri(ctx, asked)) from None
        honoured = set(uris)
        if missing := [uri for uri in asked if uri not in honoured]:
            raise ResourceNotFound(f"Resource not found: {', '.join(missing[:5])}")
        return uris

    def _lost(self) -> Json:
        return tool.lost_result(self._core.cursor_text(self._core.position))

    async def _wait_here(self, ctx: RequestContext, wait: Wait, known: dict[str, str]) -> Json:
        ready = asyncio.Event()
        wait.when_ready = ready.set
        wait.begin()
        while True:
            await ready.wait()
            ready.clear()
            if (result := await self._outcome(ctx, wait, known)) is not None:
                return result

    async def _start_task(
        self, ctx: RequestContext, wait: Wait, place: Cursor, known: dict[str, str], absent: str
    ) -> Json:
        key, task_id = self._store.new_id(tool.TOOL_NAME, holder_of(scope_of(ctx)))
        waiting = f"Waiting for a change of {counted(len(wait.subscriptions), 'resource')} until {iso(wait.until)}."
        record = TaskRecord(
            kind="wait",
            created=time.time(),
            ends=wait.until + self._waking.keep,
            poll=self._waking.poll,
            message=f"{waiting} {absent}".rstrip(),
            uris=tuple(wait.subscriptions),
            since=str(place),
            texts=known,
            own=wait.own,
            until=wait.until,
        )
        await self._store.create(key, record)
        self._hold(key, wait)
        note = {"_meta": {_NOTE_KEY: {"modelImmediateResponse": record.message}}} if absent else {}
        return {"resultType": "task", **record.summary(task_id), **note}

    async def _first(
        self, ctx: RequestContext, place: Cursor, wanted: _Wanted, known: dict[str, str]
    ) -> tuple[Wait, dict[str, str], str]:
        """Returns a new wait, the texts that its reader knows (given, or of now), and which resources are absent."""
        plain = [uri for uri in wanted.uris if not uri.endswith("*")]
        texts = await self._reader.read(ctx, [uri for uri in plain if uri not in known])
        read_at = self._core.bus.head
        absent = await self._reader.absent(ctx, wanted.uris, texts)
        held, most = self._counts[client_key(scope_of(ctx))], self._waking.waits_per_client
        if held >= most:  # Asked right before it counts: others may have begun meanwhile.
            raise LimitReached(
                f"{counted(held, 'wait')} of this client are pending, and it may have {most}. "
                "Wait for several resources with one call, or cancel a task.",
                data={"limit": "waits_per_client", "max": most, "scope": "client"},
            )
        wait, missed = await self._begun(ctx, place, wanted)
        # What changed before they were read may be in the texts or not.
        early = {change.uri for at, change in missed if isinstance(change, ResourceUpdated) and at <= read_at}
        try:
            sure = {uri: text for uri, text in texts.items() if uri not in early}
            stored = await self._texts.store(sure, seconds=max(wanted.until - time.time(), 0.0))
            return wait, known | stored, absent
        except BaseException:
            self._leave(wait)
            raise

    async def state(self, ctx: RequestContext, key: str, record: TaskRecord) -> TaskRecord:
        """Returns a task as it is now. One that has changed resources to report is completed."""
        if record.is_final or self.is_idle(key):
            return record
        turn = self._turns.setdefault(key, asyncio.Lock())
        try:
            async with turn:
                record = await self._store.find(key)
                return record if record.is_final else await self._advanced(ctx, key, record)
        finally:
            if not turn.locked() and self._turns.get(key) is turn:
                del self._turns[key]

    def is_idle(self, key: str) -> bool:
        """Returns whether this process holds the wait of a task, and has nothing to report."""
        wait = self._tasks.get(key)
        return wait is not None and not wait.changed and not wait.is_ready

    async def _advanced(self, ctx: RequestContext, key: str, record: TaskRecord) -> TaskRecord:
        wait, place = self._tasks.get(key), Cursor.parse(record.since)
        if wait is None and place is not None:
            with suppress(ResourceNotFound, NotAuthorized):  # Another process, or an earlier one, has held it.
                wanted = _Wanted(await self._honoured(ctx, record.uris), record.until, record.own)
                wait, _ = await self._begun(ctx, place, wanted)
                self._hold(key, wait)
        if wait is None:
            return await self._store.change(key, lambda record: record.completed(self._lost()))
        while wait.is_settling:  # noqa: ASYNC110 - for a second at most, and an event would cost each wait memory
            await asyncio.sleep(_LOOK_SECONDS)
        if not wait.is_ready or wait.interrupted:
            return record
        outcome = await self._outcome(ctx, wait, record.texts, key)
        return record if outcome is None else await self._store.find(key)

    def _hold(self, key: str, wait: Wait) -> None:
        self._tasks[key] = wait
        self._store.watch(key, self._look)

        def ready() -> None:
            if wait.interrupted and self._tasks.get(key) is wait:
                self._release(key)  # Another process, or the next request, goes on with it.
            else:
                self._store.told(key)

        wait.when_ready = ready
        wait.begin()

    def _look(self, key: str) -> None:
        self._background.start(self._follow(key))

    async def _follow(self, key: str) -> None:
        try:
            if (await self._store.find(key)).is_final:
                self._release(key)
        except UnknownTask:
            self._release(key)
        except TransportError:
            pass  # It is held until its time is up.

    def _release(self, key: str) -> None:
        self._store.unwatch(key, self._look)
        if (wait := self._tasks.pop(key, None)) is not None:
            self._leave(wait)

    async def _outcome(self, ctx: RequestContext, wait: Wait, known: dict[str, str], task: str = "") -> Json | None:
        """Returns the result of a wait that is ready, which completes its task; None if it has to go on waiting."""
        cursor, lost = wait.settle(), wait.lost
        changed, wait.changed = wait.changed, {}
        try:
            result = self._lost() if lost else await self._result(ctx, wait, list(changed), known, cursor)
            if result is not None and task:
                await self._store.change(task, lambda record: record.completed(result))
                self._release(task)
        except BaseException:
            wait.changed = changed | wait.changed  # Whoever asks next gets them.
            raise
        if result is None:
            wait.begin()
        return result

    async def _result(
        self, ctx: RequestContext, wait: Wait, changed: list[str], known: dict[str, str], cursor: str
    ) -> Json | None:
        holder = holder_of(scope_of(ctx))
        texts = {} if wait.interrupted else await self._reader.read(ctx, changed)
        if not wait.own:
            own = [uri for uri, text in texts.items() if await self._texts.wrote_this(wait.origin, uri, text.digest)]
            changed = [uri for uri in changed if uri not in own]
        if not changed:
            over = wait.interrupted or not wait.seconds_left
            return tool.unchanged_result(wait.until, await self._texts.mark(cursor, known, holder)) if over else None
        entries = list[tool.ChangedResource]()
        for uri in changed[:MOST_TEXTS]:
            before = await self._texts.find(known[uri]) if uri in known else wait.before.get(uri)
            entries.append(tool.ChangedResource(uri, before, texts.get(uri)))
        shown = {each.uri: each.now for each in entries if each.now is not None}
        now_known = known | await self._texts.store(shown, seconds=0.0)
        return tool.changed_result(entries, changed[MOST_TEXTS:], await self._texts.mark(cursor, now_known, holder))

    async def wrote(self, ctx: RequestContext, caller: ToolCaller) -> None:
        """Notes what a tool call has changed, if its caller has waited for it: that does not wake the caller."""
        awaited = self._awaited.get(caller.key)
        uris = [] if awaited is None else [uri for uri in caller.changed if awaited.wants(ResourceUpdated(uri))]
        for uri, text in (await self._reader.read(ctx, uris)).items():
            await self._texts.wrote(caller.key, uri, text.digest)

    async def _begun(self, ctx: RequestContext, since: Cursor, wanted: _Wanted) -> tuple[Wait, list[Entry]]:
        """Returns a wait that is registered, and the changes since its place in the log, which it has."""
        core, client = self._core, client_key(scope_of(ctx))
        memory = _WAIT_BYTES + subscription_bytes(wanted.uris) + (weight_of(ctx) if core.policy.asks else 0)
        place = core.admit(client, streams=1, memory=memory)
        wait = Wait(ctx, core, self._waking, wanted, place=place, since=core.cursor_text(since))
        self._held[wait] = client
        self._counts[client] += 1
        awaited = self._awaited.pop(wait.origin, Filter()).subscriptions.union(wanted.uris)
        self._awaited[wait.origin] = Filter.of(awaited if len(awaited) <= _MOST_AWAITED else wanted.uris)
        if len(self._awaited) > _MOST_ORIGINS:
            del self._awaited[next(iter(self._awaited))]
        try:
            began = asyncio.get_running_loop().time()
            core.check_bus()
            core.join(wait)
            wait.expire_at(expiry_of(scope_of(ctx)))
            await core.watched(wait.subscriptions)
            core.check_rights(began)
            missed = await core.catch_up(wait, since, Filter.of(wait.subscriptions).wants)
        except BaseException:
            self._leave(wait)
            raise
        if missed is None:
            core.deliver_everything(wait)
        wait.open()
        return wait, missed or []

    def _leave(self, wait: Wait) -> None:
        if (client := self._held.pop(wait, None)) is None:
            return
        self._core.leave(wait)
        wait.gone()
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def begin_stop(self) -> None:
        """Answers the calls that wait. Tasks stay pending, for another process."""
        for wait in tuple(self._held):
            wait.end()

    async def aclose(self) -> None:
        self._background.cancel()
        await self._background.finished()
        for key in tuple(self._tasks):
            self._release(key)
        for wait in tuple(self._held):
            self._leave(wait)

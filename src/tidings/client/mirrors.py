"""Mirrors of the server's lists: all their pages, kept current.

When the server says that a list changed, it is loaded again: one load at a time, and one more after it if the server
said so meanwhile. A load that failed leaves the mirror as it was, and is told with its error.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from mcp_types import Prompt, Resource, ResourceTemplate, Tool
from pydantic import BaseModel, ValidationError

from tidings.client.pulse import Pulse
from tidings.client.shapes import as_dict
from tidings.errors import Disconnected, MalformedMessage, RequestFailed, TidingsError

logger = logging.getLogger(__name__)

ItemT = TypeVar("ItemT", Tool, Resource, ResourceTemplate, Prompt)
FetchPage = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends the request for a page, and returns the answer as it is."""

_INVALID_PARAMS: Final = -32602
_PAUSES: Final = (0.5, 2.0, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An item of a list that is not what the protocol says. It is kept aside, and the rest of the list is used."""

    item: Any
    reason: str


class Mirror(Generic[ItemT]):
    """One of the server's lists, as it was when it was last loaded."""

    def __init__(
        self,
        method: str,
        key: str,
        kind: type[ItemT],
        *,
        fetch: FetchPage,
        loaded: "Callable[[Mirror[ItemT], tuple[ItemT, ...], TidingsError | None], None]",
        pulse: Pulse,
        max_pages: int,
    ) -> None:
        self._method = method
        self._key = key
        self._kind = kind
        self._fetch = fetch
        self._loaded = loaded
        self._pulse = pulse
        self._max_pages = max_pages
        self._asked = 0
        self._answered = 0
        self._outcome: TidingsError | None = None
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.items: tuple[ItemT, ...] = ()
        self.malformed: tuple[Malformed, ...] = ()
        self.tried = False
        """Whether it was loaded, or could not be, since it was empty."""

    def changed(self) -> None:
        """Load it again, soon."""
        self._asked += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is None:
            self._start()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._load())
        self._task.add_done_callback(self._done)

    async def load(self) -> tuple[ItemT, ...]:
        """Load it, and return it.

        Raises:
            TidingsError: It could not be loaded.
        """
        self.changed()
        asked = self._asked
        await self._pulse.until(lambda: self._answered >= asked or self._task is None)
        if self._answered < asked:
            raise Disconnected(f"The client was disconnected before {self._method} was done.", method=self._method)
        if self._outcome is not None:
            raise self._outcome
        return self.items

    @property
    def busy(self) -> bool:
        """Whether it is being loaded, or waits to be."""
        return self._task is not None or self._timer is not None

    async def _load(self) -> None:
        while self._answered < self._asked:
            asked = self._asked
            before, error = self.items, None
            try:
                self.items, self.malformed = await self._pages()
                self._failures = 0
            except TidingsError as failure:
                error = failure
                self._failures += 1
            self._outcome, self._answered, self.tried = error, asked, True
            self._loaded(self, before, error)
            self._pulse()
        if self._outcome is not None and self._outcome.retryable:
            pause = _PAUSES[min(self._failures, len(_PAUSES)) - 1]
            self._timer = asyncio.get_running_loop().call_later(pause, self._again)

    def _again(self) -> None:
        self._timer = None
        self.changed()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("loading %s failed", self._method, exc_info=error)
        elif not task.cancelled() and self._answered < self._asked:
            self._start()  # It changed after the last look, and before this.
        self._pulse()

    async def _pages(self) -> tuple[tuple[ItemT, ...], tuple[Malformed, ...]]:
        try:
            return await self._all_pages()
        except TidingsError as error:
            # The cursor of a later page is not valid any more: the list changed under our hands.
            if as_dict(error.data).get("rpc_code") != _INVALID_PARAMS:
                raise
            return await self._all_pages()

    async def _all_pages(self) -> tuple[tuple[ItemT, ...], tuple[Malformed, ...]]:
        items: list[ItemT] = []
        malformed: list[Malformed] = []
        seen: set[str] = set()
        params: dict[str, Any] = {}
        for _ in range(self._max_pages):
            page = await self._fetch(self._method, params)
            self._read(page, items, malformed)
            cursor: Any = page.get("nextCursor")
            if cursor is None:
                return tuple(items), tuple(malformed)
            if not isinstance(cursor, str) or cursor in seen:
                what = "repeats a cursor" if isinstance(cursor, str) else "has a cursor that is not a text"
                raise MalformedMessage(
                    f"The server's {self._method} {what}, and so never ends. This is a fault of the server.",
                    method=self._method,
                )
            seen.add(cursor)
            params = {"cursor": cursor}
        raise RequestFailed(
            f"The server's {self._method} has more than {self._max_pages} pages. If it really has, raise "
            "ClientConfig.max_pages.",
            method=self._method,
        )

    def _read(self, page: Mapping[str, Any], items: list[ItemT], malformed: list[Malformed]) -> None:
        told: Any = page.get(self._key)
        if not isinstance(told, list):
            raise MalformedMessage(
                f"The server's answer to {self._method} has no list of {self._key}. This is a fault of the server.",
                method=self._method,
            )
        model = cast("type[BaseModel]", self._kind)
        for item in cast("list[Any]", told):
            try:
                items.append(cast("ItemT", model.model_validate(item, by_name=False)))
            except ValidationError as error:
                first = error.errors()[0]
                reason = f"{'.'.join(map(str, first['loc'])) or 'item'}: {first['msg']}"
                malformed.append(Malformed(item, reason))

    def clear(self) -> None:
        """Forget the list."""
        self.items, self.malformed, self.tried = (), (), False

    async def aclose(self) -> None:
        """Stop loading."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

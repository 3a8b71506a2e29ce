"""The texts of resources that somebody waits for: read when the wait begins and when it ends, and kept on the bus.

A cursor that a wait gives out refers to the texts that its reader has seen, so that the next wait shows the difference
to those. A resource is read in the request that asks, through the server's own middleware.
"""

import asyncio
import hashlib
import json
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tidings._kit.suggest import closest, question
from tidings._kit.text import harmless, shortened
from tidings._kit.uri_templates import expand, variables
from tidings.bus import Records
from tidings.bus.shared import LARGEST_VALUE
from tidings.errors import TransportError
from tidings.server.policy import RequestContext, SubscriptionPolicy

MOST_TEXTS: Final = 20  # Resources that are read for one wait.
_LONGEST_TEXT: Final = 200_000  # Characters of a text that is kept, to be compared.
_READ_SECONDS: Final = 2.0
_MOST_ABSENT: Final = 3  # Resources that do not exist, of which the caller is told.
_NOTHING: Final = ""  # Instead of a digest: there was no such resource.
_MARK: Final = "~"  # Between a cursor and the key of the texts that go with it.
_NOT_FOUND: Final = (types.INVALID_PARAMS, -32002)  # The codes for a missing resource in the two eras.


@dataclass(frozen=True, slots=True)
class Text:
    """A resource as it was read. `text` is None if it is not text, is gone, or could not be read."""

    text: str | None
    digest: str = ""
    gone: bool = False
    why: str = ""  # The server's words, if it is gone.


class ResourceReader:
    """Reads resources of a server on behalf of a request, through all middleware but `ours`."""

    def __init__(self, server: Server[Any], policy: SubscriptionPolicy, ours: Sequence[Any]) -> None:
        self._server = server
        self._policy = policy
        self._ours = ours

    async def read(self, ctx: RequestContext, uris: Iterable[str]) -> dict[str, Text]:
        """Returns the resources that could be read in time, at most `MOST_TEXTS`."""
        tasks = {uri: asyncio.ensure_future(self._read(ctx, uri)) for uri in list(uris)[:MOST_TEXTS]}
        if not tasks:
            return {}
        try:
            await asyncio.wait(tasks.values(), timeout=_READ_SECONDS)
            return {uri: task.result() for uri, task in tasks.items() if task.done()}
        finally:
            for task in tasks.values():
                task.cancel()

    async def _read(self, ctx: RequestContext, uri: str) -> Text:
        try:
            result = await self._ask(replace(ctx, method="resources/read", params={"uri": uri}))
        except MCPError as error:
            return Text(None, gone=error.error.code in _NOT_FOUND, why=error.error.message)
        except Exception:  # noqa: BLE001 - a resource that cannot be read is no reason not to report its change
            return Text(None)
        return _text_of(result)

    async def _listed(self, ctx: RequestContext) -> list[str]:
        """Returns the URIs of the resources that are listed for the sender of a request; none if that takes pages."""
        with suppress(Exception):
            async with asyncio.timeout(_READ_SECONDS):
                answer = _as_json(await self._ask(replace(ctx, method="resources/list", params={})))
                return [] if answer.get("nextCursor") else [each["uri"] for each in answer["resources"]]
        return []

    async def _ask(self, ctx: RequestContext) -> HandlerResult:
        entry = self._server.get_request_handler(ctx.method)
        if entry is None:
            return {}
        params = entry.params_type.model_validate(ctx.params)

        async def handler(ctx: RequestContext) -> HandlerResult:
            return await entry.handler(ctx, params)

        call: CallNext = handler
        for middleware in reversed(self._server.middleware):
            if middleware not in self._ours:
                call = partial(middleware, call_next=call)
        return await call(ctx)

    async def as_uri(self, ctx: RequestContext, asked: Sequence[str]) -> str:
        """Returns the URI of a title or path that was given instead of one, as a sentence, or the closest one."""
        policy, name = self._policy, next((text for text in asked if "://" not in text), None)
        needed = {each: [part.name for part in variables(each) if not part.optional] for each in policy.names}
        template = next((each for each, names in needed.items() if len(names) == 1), None)
        if name is None or template is None:
            return ""
        uri = expand(template, {needed[template][0]: name})
        if not await policy.allows(ctx, uri):
            return ""
        text = (await self.read(ctx, [uri])).get(uri, Text(None))
        return f". {harmless(text.why)}" if text.gone else f".{question([uri], show=str)}"

    async def absent(self, ctx: RequestContext, uris: Sequence[str], texts: Mapping[str, Text]) -> str:
        said = list[str]()
        gone = [uri for uri in uris if uri.endswith("*") or (uri in texts and texts[uri].gone)][:_MOST_ABSENT]
        listed = await self._listed(ctx) if gone else []
        for uri in gone:
            if uri in texts:
                why = shortened(texts[uri].why, 400)
                near = [] if "Did you mean" in why else closest(uri, listed, key=_own_part)
                allowed = [each for each in near if await self._policy.allows(ctx, each)]
                said.append(f"Nothing exists at {uri} now: {why}{question(allowed, show=str)}")
            elif not any(each.startswith(uri[:-1]) for each in listed):
                folders = dict.fromkeys(each[: each.rfind("/") + 1] + "*" for each in listed)
                near = [each for each in closest(uri, folders, cutoff=0.8) if await self._policy.allows(ctx, each)]
                if near:
                    said.append(f"No listed resource begins with {uri[:-1]} now.{question(near, show=str)}")
        return harmless(" ".join(said))


def _own_part(uri: str) -> str:
    rest = uri.rpartition("://")[2]
    return (rest.partition("/")[2] or rest).casefold()


def _as_json(result: HandlerResult) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True) if isinstance(result, BaseModel) else result or {}


def _text_of(result: HandlerResult) -> Text:
    contents = cast("list[dict[str, Any]]", _as_json(result).get("contents") or [])
    if not contents:
        return Text(None)
    digest = hashlib.sha256(json.dumps([[each.get("text"), each.get("blob")] for each in contents]).encode())
    texts = [each["text"] for each in contents if isinstance(each.get("text"), str)]
    text = "\n".join(texts) if len(texts) == len(contents) else None
    return Text(text, digest.hexdigest()[:32])


class KnownTexts:
    """The texts that waiting readers know, on the bus. What cannot be stored or found is left out: it has no diff."""

    def __init__(self, records: Records, keep: float) -> None:
        self._records = records
        self._keep = keep
        self._stored: OrderedDict[str, float] = OrderedDict()  # Digests, and when each was stored.

    async def store(self, texts: Mapping[str, Text], *, seconds: float) -> dict[str, str]:
        """Stores texts for at least `seconds`. Returns the digest of each resource whose text is stored."""
        stored: dict[str, str] = {}
        for uri, each in texts.items():
            if each.gone:
                stored[uri] = _NOTHING
            elif each.text is not None and len(each.text) <= _LONGEST_TEXT and await self._store(each, seconds):
                stored[uri] = each.digest
        return stored

    async def _store(self, each: Text, seconds: float) -> bool:
        until = asyncio.get_running_loop().time() + seconds
        if self._stored.get(each.digest, 0.0) >= until:
            return True
        value = zlib.compress((each.text or "").encode(errors="surrogatepass"))
        if len(value) > LARGEST_VALUE:
            return False
        try:
            await self._records.put(f"text/{each.digest}", value, seconds=seconds + self._keep)
        except TransportError:
            return False
        self._stored[each.digest] = until + self._keep
        if len(self._stored) > 1_000:
            self._stored.popitem(last=False)
        return True

    async def find(self, digest: str | None) -> str | None:
        if digest is None or digest == _NOTHING:
            return digest
        with suppress(TransportError, zlib.error, UnicodeDecodeError):
            if (found := await self._records.get(f"text/{digest}")) is not None:
                return zlib.decompress(found.value).decode(errors="surrogatepass")
        return None

    async def mark(self, cursor: str, known: Mapping[str, str], holder: str) -> str:
        """Returns `cursor` with a reference to the texts that its reader knows, if there are any."""
        if not known:
            return cursor
        key, value = secrets.token_hex(8), json.dumps({"holder": holder, "texts": dict(known)}).encode()
        with suppress(TransportError):
            if len(value) <= LARGEST_VALUE:
                await self._records.put(f"known/{key}", value, seconds=self._keep)
                return f"{cursor}{_MARK}{key}"
        return cursor

    async def unmark(self, since: str, holder: str) -> tuple[str, dict[str, str]]:
        """Returns the cursor in what `mark` returned, and the texts that its reader knows."""
        cursor, mark, key = since.rpartition(_MARK)
        if not mark or not key.isalnum() or len(key) > 32:
            return since, {}
        with suppress(TransportError, ValueError):
            if (found := await self._records.get(f"known/{key}")) is not None:
                known = json.loads(found.value)
                return cursor, known["texts"] if known["holder"] == holder else {}
        return cursor, {}

    async def wrote(self, origin: str, uri: str, digest: str) -> None:
        with suppress(TransportError):
            await self._records.put(_own(origin, uri), digest.encode(), seconds=3600.0)

    async def wrote_this(self, origin: str, uri: str, digest: str) -> bool:
        with suppress(TransportError):
            found = await self._records.get(_own(origin, uri))
            return found is not None and bool(digest) and found.value == digest.encode()
        return False


def plain_cursor(since: str) -> str:
    """Returns the cursor in what `KnownTexts.mark` returned, or in a plain one."""
    return since.partition(_MARK)[0]


def _own(origin: str, uri: str) -> str:
    return f"own/{hashlib.sha256(json.dumps([origin, uri]).encode()).hexdigest()[:32]}"

"""`WebhookSubscriptions`: the methods of webhooks, and the deliveries of those that this replica has the lease of."""

import asyncio
import hmac
import json
import logging
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from tidings._kit import event_wire
from tidings._kit.suggest import there_are
from tidings._kit.tasks import Background
from tidings.bus.streams import Lease
from tidings.changes import ResourceUpdated
from tidings.errors import CallbackFailed, EventNotFound, NotAuthorized, NotSupported, TransportError
from tidings.server import config
from tidings.server.core import Core, scope_of
from tidings.server.events import messages
from tidings.server.events.catalogue import EventCatalogue, Selection
from tidings.server.events.delivery import Delivery, Means, status_of, webhook_reading
from tidings.server.events.grants import PARTS, Grant, Listed, Progress, part_of
from tidings.server.events.messages import Json, canonical, invalid, iso
from tidings.server.notify import EVENTS
from tidings.server.policy import RequestContext, holder_of

logger = logging.getLogger(__name__)

NOTICE: Final = "webhooks/"  # Begins, after `EVENTS`, a notice that names a part. No event type has a slash.
_LOOK_SECONDS: Final = 30.0  # At a part without subscriptions.
_SHORTEST: Final = 60.0  # A grant.
_ROTATION_SECONDS: Final = 3_600.0  # For which messages are also signed with the secret that was replaced.
_CHALLENGED_SECONDS: Final = 86_400.0  # For which the answer to a challenge counts.
_LONGEST_ARGUMENTS: Final = 8_192


class WebhookSubscriptions:
    """Serves `events/subscribe` and the like, and delivers."""

    def __init__(self, core: Core, events: EventCatalogue, settings: config.Webhooks) -> None:
        self._core = core
        self._events = events
        self._settings = settings
        self._means = Means(events, settings)
        self._store = self._means.store
        self._background = Background()
        self._parts: list[_Part] = []

    def start(self) -> None:
        self._parts = [_Part(number, self._means) for number in range(PARTS)]
        for part in self._parts:
            self._background.start(part.run())

    def noticed(self, part: str | None) -> None:
        for each in self._parts:
            if part is None or part == str(each.number):
                each.news.set()

    async def aclose(self) -> None:
        self._background.cancel()
        await self._background.finished()
        self._parts = []
        await self._means.aclose()

    async def _challenge(self, grant: Grant) -> None:
        """Asks a receiver if it wants these events. Raises `CallbackFailed`."""
        key = f"webhook/asked/{messages.subscription_id(grant.owner, grant.url, '', {})}"
        if await self._core.records.get(key) is not None:
            return
        nonce = secrets.token_urlsafe(24)
        body = canonical({"type": "verification", "challenge": nonce}).encode()
        answer, _ = await self._means.post(grant, f"msg_verification_{secrets.token_hex(12)}", body)
        said: Any = None
        with suppress(ValueError, RecursionError, TypeError, KeyError):
            said = json.loads(answer.body)["challenge"]
        if answer.error or not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
            why = answer.reason or "it did not answer with the challenge"
            text = f"The receiver of the webhook cannot be used: {why}. It has to answer a message of the type "
            reason = answer.error if answer.error and not 300 <= answer.status < 400 else "challenge_failed"
            raise CallbackFailed(
                text + "'verification' with HTTP 200 and the JSON object {\"challenge\": ...} that it was sent.",
                data={"reason": reason},
            )
        await self._core.records.put(key, b"", seconds=_CHALLENGED_SECONDS)

    def _owner(self, ctx: RequestContext) -> tuple[str, Json | None]:
        """Returns the identity of the sender, and its token without the text. Raises `NotAuthorized` without one."""
        scope = scope_of(ctx)
        owner = holder_of(scope)
        if not owner and not self._settings.local:
            raise NotAuthorized("Webhooks belong to a signed-in user. Sign in, or use events/poll or events/stream.")
        user: Any = (scope or {}).get("user")
        if not isinstance(user, AuthenticatedUser):
            return owner or "anonymous", None
        return owner, user.access_token.model_dump(mode="json", exclude={"token", "expires_at"})

    async def subscribe(self, ctx: RequestContext, params: messages.SubscribeParams) -> Json:
        events, delivery = self._events, params.delivery
        with events.errors(ctx):
            self._core.check_bus()
            owner, user = self._owner(ctx)
            if delivery.mode != "webhook":
                data = {"feature": "delivery.mode", "value": delivery.mode}
                raise NotSupported("events/subscribe delivers by webhook. For others, see events/stream.", data=data)
            selection = await events.select(ctx, params.name, params.arguments)
            try:
                event_wire.secret_key(delivery.secret)
            except ValueError as error:
                raise invalid(str(error), field="delivery.secret") from None
            if len(canonical(params.arguments)) > _LONGEST_ARGUMENTS:
                raise invalid(f"The arguments have more than {_LONGEST_ARGUMENTS} characters.", field="arguments")
            if why := await self._means.poster.check(delivery.url):
                raise invalid(f"This URL cannot receive webhooks: {why}.", field="delivery.url")
            asked = self._settings.longest if params.ttl_ms is None else max(params.ttl_ms / 1000, _SHORTEST)
            start, truncated = await self._start(ctx, selection, params)
            grant_id = messages.subscription_id(owner, delivery.url, params.name, params.arguments)
            expires = time.time() + min(asked, self._settings.longest)
            grant = Grant(
                id=grant_id,
                life=secrets.token_hex(8),
                owner=owner,
                user=user,
                name=params.name,
                arguments=params.arguments,
                url=delivery.url,
                secrets=((self._core.seals.seal(grant_id, delivery.secret), expires + _ROTATION_SECONDS),),
                expires=expires,
                start=start,
                oldest=0.0 if params.max_age_ms is None else time.time() - params.max_age_ms / 1000,
            )
            there = await self._store.get(grant.id)
            await self._challenge(grant)
            old = None if there is None else (await self._store.progress(there))[0]
            grant = await self._store.change(grant.id, partial(_refreshed, grant), self._settings.per_client)
            await self._tell(owner)
            if there is not None and old is not None and old.life == grant.life:
                start, truncated = old.cursor, old.truncated == there.edition
            given: Json = {"id": grant.id, "refreshBefore": iso(grant.expires), "truncated": truncated}
            if there is not None and old is not None:
                given["deliveryStatus"] = {**status_of(there, old), "active": True}
            return {**given, "cursor": events.cursor_text(selection.kind, start)}

    async def _start(
        self, ctx: RequestContext, selection: Selection, params: messages.SubscribeParams
    ) -> tuple[str, bool]:
        """Returns the cursor behind which a subscription begins, and whether that is later than was asked for."""
        events = self._events
        cursor = None if params.cursor is None else await events.cursor_from(selection.kind, params.cursor)
        async with webhook_reading(events, ctx, selection, cursor, client="", principal=None) as (_, reader):
            if cursor is None:
                return reader.cursor, False
            batch = await reader.next(1)
            return batch.start if batch.truncated else cursor, batch.truncated

    async def unsubscribe(self, ctx: RequestContext, params: messages.UnsubscribeParams) -> Json:
        with self._events.errors(ctx):
            owner, _ = self._owner(ctx)
            grant_id = messages.subscription_id(owner, params.delivery.url, params.name, params.arguments)
            if await self._store.remove(grant_id, owner):
                await self._tell(owner)
            return {}

    async def deliveries(self, ctx: RequestContext, params: messages.DeliveriesParams) -> Json:
        with self._events.errors(ctx):
            owner, _ = self._owner(ctx)
            grants = await self._store.owned(owner)
            wanted = [grant for grant in grants if params.subscription_id in (None, grant.id)]
            found = [(grant, (await self._store.progress(grant))[0]) for grant in wanted]
            deliveries = [entry for _, progress in found for entry in progress.deliveries]
            deliveries.sort(key=lambda entry: entry["at"], reverse=True)
            return {
                "subscriptions": [_described(grant, progress) for grant, progress in found],
                "deliveries": [
                    {key: value for key, value in each.items() if key != "cursor"}
                    for each in deliveries[: params.limit]
                ],
            }

    async def redeliver(self, ctx: RequestContext, params: messages.RedeliverParams) -> Json:
        with self._events.errors(ctx):
            owner, _ = self._owner(ctx)
            grant = next((each for each in await self._store.owned(owner) if each.id == params.subscription_id), None)
            if grant is None:
                text = f"You have no webhook subscription {params.subscription_id!r}."
                raise EventNotFound(text, data={"kind": "subscription"})
            progress, _ = await self._store.progress(grant)
            known = {entry["eventId"]: entry["cursor"] for entry in progress.deliveries}
            if params.event_id not in known:
                hint = there_are(known) if known else " It has none yet."
                text = f"The subscription has no delivery of an event {params.event_id!r} in its list.{hint}"
                raise EventNotFound(text, data={"kind": "event"})
            is_next = progress.trying == params.event_id  # It only has to be tried now.
            cursor = None if is_next else known[params.event_id]

            def edit(there: Grant | None) -> Grant:
                return (there or grant).deliver_again(params.event_id, cursor)

            await self._store.change(grant.id, edit, self._settings.per_client)
            await self._tell(owner)
            return {}

    async def _tell(self, owner: str) -> None:
        with suppress(TransportError):  # The notice is obeyed here, kept, and published when the bus is back.
            await self._core.publish(ResourceUpdated(f"{EVENTS}{NOTICE}{part_of(owner)}"))


def _refreshed(grant: Grant, there: Grant | None) -> Grant:
    if there is None:
        return grant
    until = time.time() + _ROTATION_SECONDS
    old = [(text, min(end, until)) for text, end in there.secrets[:1]]
    return replace(
        there, user=grant.user, secrets=(*grant.secrets, *old), expires=grant.expires, edition=there.edition + 1
    )


def _described(grant: Grant, progress: Progress) -> Json:
    is_parked = progress.parked == grant.edition
    return {
        "id": grant.id,
        "name": grant.name,
        "arguments": grant.arguments,
        "url": grant.url,
        "refreshBefore": iso(grant.expires),
        "state": "parked" if is_parked else "retrying" if progress.trying else "active",
        "reason": progress.reason if is_parked else "",
        "delivered": progress.delivered,
        "deliveryStatus": status_of(grant, progress),
    }


class _Part:
    """The subscriptions of one part. While this replica has its lease, it delivers them."""

    def __init__(self, number: int, means: Means) -> None:
        self.number = number
        self.news = asyncio.Event()
        self._means = means
        self._lease = Lease(means.core.records, f"webhooks/{number}/lease", means.settings.lease)
        self._running: dict[str, tuple[Delivery, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        pause = 0.0
        try:
            while True:
                with anyio.move_on_after(pause):
                    await self.news.wait()
                self.news.clear()
                try:
                    pause = await self._look()
                except Exception as error:  # Without the lease, which ends by itself, nothing is sent.
                    if not isinstance(error, TransportError):
                        logger.exception("The webhooks of part %s cannot be read.", self.number)
                    pause = 1.0
        finally:
            await self._keep({})
            with suppress(TransportError):
                await self._lease.leave()

    async def _look(self) -> float:
        """Does what there is to do, and returns the seconds until it should look again."""
        means = self._means
        listed = {} if means.core.stopping else await means.store.listed(self.number)
        has_lease = bool(listed) and await self._lease.take()
        await self._keep(listed if has_lease else {})
        if not listed:
            await self._lease.leave()
            return _LOOK_SECONDS
        if has_lease:
            for grant_id, entry in listed.items():
                there, _ = self._running.get(grant_id, (None, None))
                if there is not None and there.grant.mark == entry.mark:
                    continue
                if (grant := await means.store.get(grant_id)) is None:
                    continue
                if there is not None:
                    there.renew(grant)
                else:
                    delivery = Delivery(means, self._lease, grant)
                    self._running[grant_id] = delivery, asyncio.get_running_loop().create_task(delivery.run())
        return means.settings.lease / 3

    async def _keep(self, listed: dict[str, Listed]) -> None:
        """Ends the deliveries that have ended by themselves, or are not listed in this life."""
        over = {
            grant_id: each
            for grant_id, each in self._running.items()
            if each[1].done() or grant_id not in listed or listed[grant_id].mark.split(".")[0] != each[0].grant.life
        }
        for _, task in over.values():
            task.cancel()
        for grant_id, (delivery, task) in over.items():
            await asyncio.wait([task])
            del self._running[grant_id]
            with suppress(TransportError):
                await delivery.stop()
            if not task.cancelled() and (error := task.exception()) is not None:
                logger.error("The deliveries of %s failed, and start again.", grant_id, exc_info=error)

"""What may be subscribed to, and by whom."""

import logging
from typing import Any, cast

import anyio
import pytest

from tidings.errors import InvalidUri, LimitReached, NotSubscribable, ResourceNotFound
from tidings.server.config import Limits
from tidings.server.policy import RequestContext, SubscriptionPolicy

pytestmark = pytest.mark.anyio

A, B = "note://a", "note://b"
ALICE = cast("RequestContext", "alice")


def policy(**options: Any) -> SubscriptionPolicy:
    return SubscriptionPolicy(**{"limits": Limits(), **options})


# What may be asked for


def test_what_is_asked_for_twice_is_taken_once_in_the_order_of_asking() -> None:
    assert policy().check([B, A, "note://*", B]) == [B, A, "note://*"]


def test_nothing_may_be_asked_for() -> None:
    assert policy(subscribable=[]).check([]) == []


@pytest.mark.parametrize("text", ["", "note", "a b:c", "x:" + "y" * 9000, "note://a\n"])
def test_what_is_not_a_uri_is_refused(text: str) -> None:
    with pytest.raises(InvalidUri):
        policy().check([A, text])


def test_as_many_may_be_asked_for_as_the_limit_says() -> None:
    small = policy(limits=Limits(subscriptions=2))
    assert small.check([A, B, A]) == [A, B]
    assert small.check([A], held=1) == [A]


@pytest.mark.parametrize(("asked", "held"), [([A, B, "note://c"], 0), ([A], 2)])
def test_one_more_than_the_limit_is_refused_with_what_to_do(asked: list[str], held: int) -> None:
    with pytest.raises(LimitReached, match=r"3 subscriptions .* at most 2\. Subscribe to a prefix"):
        policy(limits=Limits(subscriptions=2)).check(asked, held=held)


def test_a_million_names_are_refused_before_any_is_looked_at() -> None:
    with pytest.raises(LimitReached, match="1000000 subscriptions"):
        policy().check(str(number) for number in range(1_000_000))


@pytest.mark.parametrize("asked", [A, "feed://7", "page://x/y", "page://x/*"])
def test_what_is_on_the_list_of_what_may_be_subscribed_to_is_taken(asked: str) -> None:
    assert policy(subscribable=[A, "feed://{id}", "page://x/*"]).check([asked]) == [asked]


@pytest.mark.parametrize("refused", [B, "note://*", "*", "feed://*", "feed://7/secret", "page://*", "page://x"])
def test_what_is_not_on_the_list_is_refused_and_the_list_is_told(refused: str) -> None:
    with pytest.raises(NotSubscribable) as refusal:
        policy(subscribable=[A, "feed://{id}", "page://x/*"]).check([A, refused])
    assert refused in refusal.value.message
    assert refusal.value.message.endswith(f"{A}, feed://{{id}}, page://x/*")
    assert refusal.value.data == {"uri": refused, "refused": [refused], "allowed": [A, "feed://{id}", "page://x/*"]}


def test_what_may_be_subscribed_to_is_checked_when_the_server_is_made() -> None:
    with pytest.raises(InvalidUri):
        policy(subscribable=["not a uri"])


# What is there


def test_what_the_server_does_not_have_is_missing() -> None:
    assert policy(missing=lambda asked: [uri for uri in asked if uri != A]).missing([B, A]) == [B]


def test_nothing_is_missing_where_the_server_cannot_tell() -> None:
    assert policy().missing([A, B]) == []


# Who may


async def test_everyone_may_where_nobody_is_asked() -> None:
    everyone = policy()
    assert not everyone.asks
    assert everyone.screen(ALICE) is None
    assert await everyone.allows(ALICE, A)


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_servers_author_decides_who_may_hear_of_what(is_async: bool) -> None:
    def decide(ctx: RequestContext, uri: str) -> bool:
        return (ctx, uri) == (ALICE, A)

    async def decide_later(ctx: RequestContext, uri: str) -> bool:
        return decide(ctx, uri)

    strict = policy(authorize=decide_later if is_async else decide)
    screen = strict.screen(ALICE)
    assert strict.asks
    assert screen is not None
    assert [await strict.allows(ALICE, uri) for uri in (A, B)] == [True, False]
    assert [await screen(uri) for uri in (A, B)] == [True, False]
    assert not await strict.allows(cast("RequestContext", "bob"), A)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_failure_to_decide_is_a_no_and_is_logged(is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    def fail(ctx: RequestContext, uri: str) -> bool:
        raise LookupError(f"the directory does not know {ctx} and {uri}")

    async def fail_later(ctx: RequestContext, uri: str) -> bool:
        return fail(ctx, uri)

    with anyio.fail_after(5):
        assert not await policy(authorize=fail_later if is_async else fail).allows(ALICE, A)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert A in caplog.text
    assert "the directory does not know alice" in caplog.text


async def test_what_is_missing_and_what_is_refused_look_the_same() -> None:
    strict = policy(
        authorize=lambda ctx, uri: uri == A, missing=lambda asked: [uri for uri in asked if uri == "note://missing"]
    )
    await strict.require(ALICE, A)
    answers = []
    for name in ("note://refused", "note://missing"):
        with pytest.raises(ResourceNotFound) as refusal:
            await strict.require(ALICE, name)
        answers.append((str(refusal.value).replace(name, "…"), str(refusal.value.data).replace(name, "…")))
    assert answers[0] == answers[1]


def test_an_empty_list_of_what_may_be_subscribed_to_allows_nothing() -> None:
    with pytest.raises(NotSubscribable):
        policy(subscribable=[]).check(["note://a"])

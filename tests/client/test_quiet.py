"""The SDK's tracebacks for what a live client expects are kept from the log; those for anyone else are not."""

import asyncio
import logging
from contextvars import copy_context
from typing import Any

import anyio
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest

from tests.client.misbehaving import Asked, Log, site
from tidings.client.config import ClientConfig
from tidings.client.sdk_seam import LOGGERS, quiet
from tidings.client.targets import HttpTarget, parse_target
from tidings.client.transports.http import open_transport

pytestmark = pytest.mark.anyio

OUTSIDE = copy_context()
"""What a task of the user's has: nothing of ours is set in it."""

SDK = "mcp.client.streamable_http"
OURS = "tidings.client.link"


async def nonsense(asked: Asked) -> None:
    await asked.answer(200, b"nonsense")


async def refused(streams: Any) -> str:
    read, write = streams
    await write.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping")))
    with anyio.fail_after(10):
        answer = (await read.receive()).message
    assert isinstance(answer, JSONRPCError)
    return answer.error.message


async def test_a_fault_on_our_connection_is_logged_quietly_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with site(nonsense) as here:
        target = parse_target(here.url + "?key=tok-3n-s3cr3t")
        assert isinstance(target, HttpTarget)
        async with open_transport(target, ClientConfig(max_message=1024), watch=Log()) as streams:
            # As a user's task would: it is in no context of ours.
            await asyncio.create_task(refused(streams), context=OUTSIDE.copy())
    found = [record for record in caplog.records if record.name in {*LOGGERS, OURS}]
    assert {(record.name, record.levelname) for record in found} == {(OURS, "DEBUG")}
    (fault,) = (record for record in found if "Error parsing JSON response" in record.getMessage())
    assert fault.getMessage().startswith(f"{SDK}: ")
    assert "ValidationError" in (fault.exc_text or "")
    (request,) = (record for record in found if "HTTP Request" in record.getMessage())
    assert "key=***" in request.getMessage()
    assert "tok-3n-s3cr3t" not in caplog.text


async def test_a_fault_on_a_connection_of_somebody_else_is_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with site(nonsense) as here:
        target = parse_target(here.url)
        assert isinstance(target, HttpTarget)
        async with (
            streamable_http_client(here.url) as theirs,
            open_transport(target, ClientConfig(max_message=1024), watch=Log()) as ours,
        ):
            await asyncio.create_task(refused(theirs), context=OUTSIDE.copy())
            await asyncio.create_task(refused(ours), context=OUTSIDE.copy())
    (fault,) = (record for record in caplog.records if record.name == SDK)
    assert fault.levelname == "ERROR"
    assert fault.exc_info
    assert [record.name for record in caplog.records if record.name in {*LOGGERS, OURS}] == ["httpx2", SDK]


async def test_a_task_that_is_started_inside_is_quiet_and_one_that_was_started_before_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    gate = asyncio.Event()

    async def complain(text: str) -> None:
        await gate.wait()
        logging.getLogger("client").error(text)

    before = asyncio.create_task(complain("outside"))
    with quiet():
        inside = asyncio.create_task(complain("inside"))
    gate.set()
    await asyncio.gather(before, inside)
    logging.getLogger("client").error("after")
    told = [(record.name, record.getMessage()) for record in caplog.records if record.name in ("client", OURS)]
    assert told == [("client", "outside"), (OURS, "client: inside"), ("client", "after")]


def test_a_text_or_traceback_with_a_secret_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    target = parse_target("http://h/", token="tok-3n-s3cr3t")

    def fail() -> None:
        try:
            int("tok-3n-s3cr3t")
        except ValueError:
            logging.getLogger(SDK).exception("sent %s", "tok-3n-s3cr3t")

    with quiet(target.clean):
        fail()
    (record,) = caplog.records
    assert record.getMessage() == f"{SDK}: sent ***"
    assert "base 10: '***'" in caplog.text
    assert "tok-3n-s3cr3t" not in caplog.text


def test_unless_somebody_wants_to_know_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with quiet():
        for name in LOGGERS:
            logging.getLogger(name).critical("unheard")
        logging.getLogger("elsewhere").critical("heard")
    assert [record.getMessage() for record in caplog.records] == ["heard"]


def test_however_often_it_is_used_there_is_one_filter() -> None:
    with quiet(), quiet():
        count = len(logging.getLogger(SDK).filters)
    with quiet():
        assert len(logging.getLogger(SDK).filters) == count

"""One server: its connection and sign-in, requests, subscriptions, and the questions that it asks."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from inspect import isawaitable
from json import dumps
from typing import Any, Final, cast

import httpx2

from tidings._kit.bounded_json import as_dict, as_dicts, as_list, as_text
from tidings.client.accounts import default_accounts
from tidings.errors import TidingsError
from tidings.inspector.catalog.entry import LOG_LEVELS
from tidings.inspector.forms.check import check_result
from tidings.inspector.http.api.calls import problem_of
from tidings.inspector.http.context import ApiProblem, Asked, Fields, Routes, one_of
from tidings.inspector.http.rows import error_facts, error_of, fields_of
from tidings.inspector.records import LIST_KEYS
from tidings.inspector.server import InspectedServer

# Requests of one server that wait or run at the same time. A page that sends more has a fault.
_MOST_WAITING: Final = 1_000
_MODEL_SECONDS: Final = 120.0
ROUTES: Final = Routes("/api/servers/{server}")


@ROUTES.add("GET", "/list/{list}")
async def listed(asked: Asked) -> dict[str, Any]:
    """Returns all items of a list, and its faults."""
    view, name = asked.server.view, one_of("list", asked.path["list"], LIST_KEYS)
    return {
        "items": list(getattr(view, name).values()),
        "malformed": view.malformed.get(name, []),
        "duplicates": [str(each.get(LIST_KEYS[name])) for each in view.duplicates.get(name, ())],
    }


@ROUTES.add("GET", "/requests/{id}")
async def request(asked: Asked) -> dict[str, Any]:
    """Returns a request with its result, and the problems of what a tool returned."""
    view, known = asked.server.view, asked.path["id"]
    if (found := view.requests.get(known)) is None:
        message = f"Request {known!r} is not kept any more."
        raise ApiProblem(404, "no-such-request", message, "The oldest are deleted first.")
    problems = None
    if found.method == "tools/call":
        tool = view.tools.get(as_text(found.params.get("name")) or "", {})
        # In a thread, because a hostile schema may take up to a second.
        problems = await asyncio.to_thread(check_result, tool, found.result)
    names = "id", "seq", "method", "params", "aside", "status", "attempts", "result", "result_size", "title", "state"
    return {
        **fields_of(found, *names),
        "created": found.created_at,
        "started": found.started_at,
        "ended": found.completed_at,
        "ms": None if found.took is None else found.took * 1000,
        "error": error_of(found.error),
        "progress": None if found.progress is None else fields_of(found, "progress", "total", "message"),
        "task": None if found.task is None else {**asdict(found.task), "ends": found.task.ends},
        "problems": [problem_of(each) for each in problems or ()],
    }


@ROUTES.add("GET", "/search")
async def search(asked: Asked) -> dict[str, Any]:
    """Returns how often a text occurs in the bodies of each row of messages, whatever its case."""
    view, wanted = asked.server.view, asked.given.text("text").lower()
    messages = [*view.messages, *view.pings]

    def found() -> Counter[int]:
        hits: Counter[int] = Counter()
        for each in messages:
            row = each.seq if each.partner is None or each.kind == "request" else each.partner
            for part in (each.body, each.answer):
                hits[row] += 0 if part is None else dumps(part, ensure_ascii=False).lower().count(wanted)
        return +hits

    return {"hits": await asyncio.to_thread(found), "searched": len(messages)}


Action = Callable[[InspectedServer, Fields], Any]
_ACTIONS: Final[dict[str, Action]] = {
    "connect": lambda server, _: server.start(),  # In the background: the stream reports the progress.
    "disconnect": lambda server, _: server.disconnect(),
    "reconnect": lambda server, _: server.reconnect(),
    "subscribe": lambda server, given: server.subscribe(given.text("uri")),
    "unsubscribe": lambda server, given: server.unsubscribe(given.text("uri")),
    "cancel": lambda server, given: {"cancelled": server.cancel(given.text("id"))},
}
# Each begins a request, and returns its id at once.
_REQUESTS: Final[dict[str, Action]] = {
    "call": lambda server, given: server.call(
        _offered("tool", given.text("tool"), server.view.tools),
        given.mapping("arguments", {}),
        meta=given.mapping("meta", {}),
    ),
    "read": lambda server, given: server.read(given.text("uri")),
    "prompt": lambda server, given: server.get_prompt(
        _offered("prompt", given.text("name"), server.view.prompts), given.texts("arguments", {})
    ),
    "request": lambda server, given: server.request(given.text("method"), given.mapping("params", {})),
    "task": lambda server, given: server.follow_task(given.text("id")),
}


def _offered(what: str, name: str, there: Collection[str]) -> str:
    """Returns the name of something in the server's list, unless that is empty. Raises `ApiProblem`."""
    return one_of(what, name, there) if there else name


def _add(name: str, act: Action) -> None:
    async def run(asked: Asked) -> Any:
        server = asked.server
        if name in _REQUESTS:
            waiting = sum(not each.over for each in server.view.requests.values())
            if waiting >= _MOST_WAITING:
                message = f"{waiting:,} requests are waiting or running already."
                raise ApiProblem(429, "too-many-requests", message, "Cancel some, or wait.")
            return {"id": act(server, asked.given)}
        done = act(server, asked.given)
        return await done if isawaitable(done) else done

    ROUTES.add("POST", f"/{name}")(run)


for _name, _act in {**_ACTIONS, **_REQUESTS}.items():
    _add(_name, _act)


@ROUTES.add("POST", "/complete")
async def complete(asked: Asked) -> dict[str, list[str]]:
    """Returns the server's suggestions for an argument."""
    given = asked.given
    ref, argument = Fields(given.mapping("ref")), Fields(given.mapping("argument"))
    of = ("prompt", ref.text("name")) if ref.text("type") == "ref/prompt" else ("template", ref.text("uri"))
    typed = argument.text("name"), argument.text("value", empty=True)
    return {"values": await asked.server.complete(*of, *typed, given.texts("context", {}) or None)}


@ROUTES.add("POST", "/log-level")
async def log_level(asked: Asked) -> None:
    """Sets the level of the log messages that the server sends."""
    level, server = one_of("level", asked.given.text("level"), LOG_LEVELS), asked.server
    await server.set_log_level(cast("Any", level))
    asked.running.feed.mark_level(server.name, level)


# Questions of the server: answered by the user, by rules, or with the text of a model.


@ROUTES.add("GET", "/rules")
async def rules(asked: Asked) -> dict[str, Any]:
    """Returns the rules that answer questions before the user is asked, and the folders that the server may use."""
    server = asked.server
    roots = as_list(as_dict((server.view.entry or {}).get("tidings")).get("roots"))
    return {"rules": server.rules_given, "roots": roots}


@ROUTES.add("POST", "/rules")
async def set_rules(asked: Asked) -> None:
    """Sets the rules, in the form of a script for `--answers`. They answer until the inspector ends."""
    from tidings.client.responders import rules_responder  # noqa: PLC0415 - imports the SDK

    server, given = asked.server, asked.given.any("rules")
    try:
        server.rules = rules_responder(given, "The text") if given else None
    except ValueError as error:
        raise ApiProblem(400, "bad-rules", str(error), "Correct the rule. The old rules are still used.") from None
    server.rules_given = given


@ROUTES.add("POST", "/model")
async def ask_model(asked: Asked) -> dict[str, str]:
    """Returns the text of a model, at any OpenAI-compatible address, to be the answer to a sampling question."""
    server, given = asked.server, asked.given
    params = server.view.questions[_question(asked)].params or {}
    address, variable = given.text("address").rstrip("/"), given.text("key_variable", "")
    key = asked.running.session.environ.get(variable, "")
    if variable and not key:
        raise ApiProblem(400, "no-key", f"The variable {variable} is not set.", "Set it where the inspector starts.")
    system = as_text(params.get("systemPrompt"))
    messages = [{"role": "system", "content": system}] if system else []
    for each in as_dicts(params.get("messages")):
        content: Any = each.get("content")
        parts = as_dicts(cast("list[Any]", content) if isinstance(content, list) else [content])
        text = "".join(str(part.get("text", "")) for part in parts)
        messages.append({"role": str(each.get("role")), "content": text})
    sent = {"model": given.text("model"), "messages": messages, "max_tokens": params.get("maxTokens")}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx2.AsyncClient(timeout=_MODEL_SECONDS) as http:
            answer = await http.post(f"{address}/chat/completions", json=sent, headers=headers)
        choices = as_dicts(as_dict(answer.json()).get("choices"))
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        message = f"The model at {address} cannot be asked ({error or type(error).__name__})."
        raise ApiProblem(502, "no-model", message, "Check its address.", who="the network") from None
    text = as_text(as_dict(as_dict(choices[0] if choices else {}).get("message")).get("content"))
    if text is None:
        message = f"The model at {address} did not answer with a text (HTTP {answer.status_code}): {answer.text[:300]}"
        raise ApiProblem(502, "no-model", message, "Check its name and its key.", who="the server")
    return {"text": text, "model": as_text(as_dict(answer.json()).get("model")) or given.text("model")}


@ROUTES.add("POST", "/answer")
async def answer(asked: Asked) -> None:
    """Answers a question of the server."""
    server, known = asked.server, _question(asked)
    try:
        server.answer(known, _protocol_answer(server.view.questions[known].kind, asked.given.any("result")))
    except ValueError as error:
        message = f"This is not a valid answer: {_brief(error)}"
        raise ApiProblem(400, "bad-answer", message, "Correct it. The question is still open.") from None


def _protocol_answer(kind: str, result: Any) -> Any:
    """Returns an answer of the protocol as the SDK's type; a plain text or list as it is. Raises `ValueError`."""
    if not isinstance(result, dict):
        return result
    import mcp_types  # noqa: PLC0415 - a part of the SDK

    types: dict[str, tuple[Any, ...]] = {
        "sampling": (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools),
        "elicitation": (mcp_types.ElicitResult,),
        "roots": (mcp_types.ListRootsResult,),
    }
    failure = ValueError(f"questions of the kind {kind!r} cannot be answered")
    for each in types.get(kind, ()):
        try:
            return each.model_validate(result)
        except ValueError as error:
            failure = error
    raise failure


def _brief(error: ValueError) -> str:
    """Returns a validation error in one sentence: the places and the mistakes there."""
    found: Any = getattr(error, "errors", None)
    if found is None:
        return str(error).rstrip(".") + "."
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found()[:5]) + "."


@ROUTES.add("POST", "/refuse")
async def refuse(asked: Asked) -> None:
    """Refuses a question, declines it, or dismisses it without a choice."""
    server, known, given = asked.server, _question(asked), asked.given
    how = one_of("way", given.text("how", "refuse"), ("refuse", "decline", "dismiss"))
    server.refuse(known, how, given.text("reason", "", empty=True))


def _question(asked: Asked) -> str:
    known = asked.given.text("id")
    if known not in asked.server.view.questions:
        message = "This question is not open any more."
        raise ApiProblem(404, "no-such-question", message, "It was answered, or its request has ended.")
    return known


# Signing in by OAuth: steps that the page shows, and the accounts that are kept.


def _url(server: InspectedServer) -> str:
    """Returns the address of a server. Raises `ApiProblem` if it is a command."""
    url = getattr(server.spec.parsed(), "url", None)
    if not isinstance(url, str):
        raise ApiProblem(409, "not-supported", "Only servers with an address have a sign-in.", "Set a token instead.")
    return url


async def _begin_again(server: InspectedServer) -> None:
    await server.aclose()
    server.start()


@ROUTES.add("GET", "/sign-in")
async def sign_in_facts(asked: Asked) -> dict[str, Any]:
    """Returns the sign-in that is going on, or was the last; and the accounts of this server."""
    server = asked.server
    accounts = await asyncio.to_thread(default_accounts().of, _url(server))
    signing, task = server.signing_in, server.signing_task
    failure = task.exception() if task is not None and task.done() and not task.cancelled() else None
    return {
        "running": task is not None and not task.done(),
        "address": "" if signing is None else signing.address,
        "steps": [] if signing is None else [each.as_json() for each in signing.steps],
        "error": None if failure is None else error_facts(failure),
        "accounts": [asdict(each) for each in accounts],
    }


@ROUTES.add("POST", "/sign-in")
async def sign_in(asked: Asked) -> None:
    """Starts a sign-in by the user. The stream tells when there is another step."""
    server, feed = asked.server, asked.running.feed
    url, text = _url(server), asked.given.text
    if server.signing_task is not None:
        server.signing_task.cancel()
    from tidings.client.sign_in import SigningIn  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

    signing = server.signing_in = SigningIn(
        url,
        headers=getattr(server.spec.parsed(), "headers", None),
        account=text("account", ""),
        client_id=text("client_id", ""),
        client_secret=text("client_secret", ""),
        on_step=lambda _: feed.mark_stale("sign-in"),
    )

    async def run() -> None:
        try:
            await signing.run()
            await _begin_again(server)
        finally:
            feed.mark_stale("sign-in")

    server.signing_task = asyncio.create_task(run(), name=f"signing in to {server.name}")


@ROUTES.add("POST", "/sign-in/finish")
async def finish(asked: Asked) -> None:
    """Takes the address to which the browser was sent, if it could not come back by itself."""
    try:
        if (signing := asked.server.signing_in) is not None:
            signing.finish(asked.given.text("address"))
    except ValueError as error:
        raise ApiProblem(400, "bad-address", str(error), "Paste the address that the browser shows.") from None


@ROUTES.add("POST", "/sign-in/stop")
async def stop(asked: Asked) -> None:
    """Ends a sign-in that is going on."""
    if (task := asked.server.signing_task) is not None:
        task.cancel()
        asked.running.feed.mark_stale("sign-in")


@ROUTES.add("POST", "/accounts")
async def choose(asked: Asked) -> None:
    """Uses another account of the server from now on."""
    server, name, accounts = asked.server, asked.given.text("account"), default_accounts()
    url = _url(server)
    one_of("account", name, [each.name for each in await asyncio.to_thread(accounts.of, url)])
    await asyncio.to_thread(accounts.use, url, name)
    await _begin_again(server)
    asked.running.feed.mark_stale("sign-in")


@ROUTES.add("POST", "/sign-out")
async def sign_out(asked: Asked) -> dict[str, bool]:
    """Forgets an account, and revokes its tokens where the server allows it."""
    from tidings.client import sign_in  # noqa: PLC0415 - imports the SDK's OAuth, which is slow

    server, name = asked.server, asked.given.text("account", "")
    account = await asyncio.to_thread(default_accounts().get, _url(server), name)
    if account is None:
        raise ApiProblem(404, "no-such-account", "Nobody is signed in by this name.")
    revoked = False
    with suppress(TidingsError):
        revoked = await sign_in.sign_out(account)
    server.signing_in = server.signing_task = None
    await _begin_again(server)
    asked.running.feed.mark_stale("sign-in")
    return {"revoked": revoked}

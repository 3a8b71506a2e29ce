"""Questions of a server: answered by the user, by rules, or with the text of a model."""

from typing import Any, Final, cast

import httpx2
from starlette.requests import Request

from tidings._kit.bounded_json import as_dict, as_dicts, as_list, as_text
from tidings.inspector.http.context import running_of, server_of
from tidings.inspector.http.exchange import ApiProblem, Fields, Routes, body, one_of
from tidings.inspector.server import InspectedServer

_MODEL_SECONDS: Final = 120.0
ROUTES: Final = Routes("/api/servers/{server}")


@ROUTES.add("GET", "/rules")
async def rules(request: Request) -> dict[str, Any]:
    """Returns the rules that answer questions before the user is asked, and the folders that the server may use."""
    server = server_of(request)
    roots = as_list(as_dict((server.view.entry or {}).get("tidings")).get("roots"))
    return {"rules": server.rules_given, "roots": roots}


@ROUTES.add("POST", "/rules")
async def set_rules(request: Request) -> None:
    """Sets the rules, in the form of a script for `--answer`. They answer until the inspector ends."""
    from tidings.client.responders import rules_responder  # noqa: PLC0415 - imports the SDK

    server, given = server_of(request), (await body(request)).any("rules")
    try:
        server.rules = rules_responder(given, "The text") if given else None
    except ValueError as error:
        raise ApiProblem(400, "bad-rules", str(error), "Correct the rule. The old rules are still used.") from None
    server.rules_given = given


@ROUTES.add("POST", "/model")
async def ask_model(request: Request) -> dict[str, str]:
    """Returns the text of a model, at any OpenAI-compatible address, as the answer to a sampling question.

    Nothing is sent to the server yet.
    """
    running, server, given = running_of(request), server_of(request), await body(request)
    params = server.view.questions[_question(server, given)].params or {}
    address, variable = given.text("address").rstrip("/"), given.text("key_variable", "")
    key = running.session.environ.get(variable, "")
    if variable and not key:
        raise ApiProblem(400, "no-key", f"The variable {variable} is not set.", "Set it where the inspector starts.")
    system = as_text(params.get("systemPrompt"))
    messages = [{"role": "system", "content": system}] if system else []
    for each in as_dicts(params.get("messages")):
        content: Any = each.get("content")
        parts = as_dicts(cast("list[Any]", content) if isinstance(content, list) else [content])
        text = "".join(str(part.get("text", "")) for part in parts)
        messages.append({"role": str(each.get("role")), "content": text})
    asked = {"model": given.text("model"), "messages": messages, "max_tokens": params.get("maxTokens")}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx2.AsyncClient(timeout=_MODEL_SECONDS) as http:
            answer = await http.post(f"{address}/chat/completions", json=asked, headers=headers)
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
async def answer(request: Request) -> None:
    """Answers a question of the server."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    try:
        server.answer(known, _protocol_answer(server.view.questions[known].kind, given.any("result")))
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
async def refuse(request: Request) -> None:
    """Refuses a question, declines it, or dismisses it without a choice."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    how = one_of("way", given.text("how", "refuse"), ("refuse", "decline", "dismiss"))
    server.refuse(known, cast("Any", how), given.text("reason", "", empty=True))


def _question(server: InspectedServer, given: Fields) -> str:
    known = given.text("id")
    if known not in server.view.questions:
        message = "This question is not open any more."
        raise ApiProblem(404, "no-such-question", message, "It was answered, or its request has ended.")
    return known

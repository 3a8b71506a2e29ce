"""What servers ask of the user: answered, refused, declined, closed."""

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import Fields, Problem, body, endpoint, unknown
from tidings.inspector.web.inspector import server_of

if TYPE_CHECKING:
    from tidings.inspector.inspected import InspectedServer


async def answer(request: Request) -> None:
    """Answer a question of the server's."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    try:
        server.answer(known, _protocol_answer(server.view.questions[known].kind, given.any("result")))
    except ValueError as error:
        raise Problem(400, "bad-answer", f"This is no answer to it: {_brief(error)}", "It goes on waiting.") from None


def _protocol_answer(kind: str, result: Any) -> Any:
    """What the protocol's answer carries, as the SDK has it; a plain text or list is left to the client.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(result, dict):
        return result
    import mcp_types  # noqa: PLC0415 - of the SDK

    types: dict[str, tuple[Any, ...]] = {
        "sampling": (mcp_types.CreateMessageResult, mcp_types.CreateMessageResultWithTools),
        "elicitation": (mcp_types.ElicitResult,),
        "roots": (mcp_types.ListRootsResult,),
    }
    failure = ValueError(f"nobody knows how to answer {kind!r}")
    for each in types.get(kind, ()):
        try:
            return each.model_validate(result)
        except ValueError as error:
            failure = error
    raise failure


def _brief(error: ValueError) -> str:
    """What is wrong, in a sentence: of pydantic's many lines, the places and what is wrong there."""
    found: Any = getattr(error, "errors", None)
    if found is None:
        return str(error).rstrip(".") + "."
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found()[:5]) + "."


async def refuse(request: Request) -> None:
    """Refuse a question, decline it, or close it without a choice."""
    server, given = server_of(request), await body(request)
    known = _question(server, given)
    how = given.text("how", "refuse")
    if how == "decline":
        server.decline(known)
    elif how == "dismiss":
        server.dismiss(known)
    elif how == "refuse":
        reason = given.text("reason", "", empty=True)
        server.refuse(known, reason) if reason else server.refuse(known)
    else:
        raise unknown("way", how, ("refuse", "decline", "dismiss"))


def _question(server: "InspectedServer", given: Fields) -> str:
    known = given.text("id")
    if known not in server.view.questions:
        raise Problem(404, "no-such-question", "This question does not wait any more.", "It was answered, or ended.")
    return known


ROUTES: Final = [
    Route("/api/servers/{server}/answer", endpoint(answer), methods=["POST"]),
    Route("/api/servers/{server}/refuse", endpoint(refuse), methods=["POST"]),
]

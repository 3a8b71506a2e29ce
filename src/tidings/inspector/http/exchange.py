"""JSON in, JSON out, errors included; and the routes of endpoints.

An error is `{"error": {code, category, who, message, cure, help_page, payload?}}`: `who` is at fault, and `cure` says
what to do.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tidings._kit.bounded_json import as_texts, dumps, is_number, type_of
from tidings._kit.suggest import closest, question
from tidings.errors import EXPLAINED_BY, TidingsError
from tidings.inspector.view.error_report import error_view
from tidings.inspector.view.items import ErrorView

logger = logging.getLogger(__name__)

LARGEST_BODY: Final = 32 * 2**20  # Bytes: it may contain a file for a tool.
# Stands for a slash within a part of a path until the path is routed. No decoded text contains it.
SLASH: Final = "\udcff"

Endpoint = Callable[[Request], Awaitable[Any]]
_STATUS: Final = {
    "not-connected": 409,
    "bad-target": 400,
    "invalid-uri": 400,
    "resource-not-found": 404,
    "not-supported": 409,
    "request-timed-out": 504,
    "connect-timed-out": 504,
}


class ApiProblem(Exception):
    """An error of the API: the request cannot be fulfilled."""

    def __init__(self, status: int, code: str, message: str, cure: str = "", *, who: str = "you", payload: Any = None):
        super().__init__(message)
        self.status = status
        category = "input" if who == "you" else "program"
        self.facts = error_of(ErrorView(message, code, category, who, cure, payload=payload))

    def response(self) -> Response:
        return answered({"error": self.facts}, self.status)


class Routes(list[Route]):
    """The routes of some endpoints, which are added by a decorator: `@ROUTES.add("GET", "/hello")`.

    An endpoint returns a JSON value, None for 204, or a response. It may raise `ApiProblem` or a `TidingsError`.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def add(self, method: str, path: str = "") -> Callable[[Endpoint], Endpoint]:
        def decorate(run: Endpoint) -> Endpoint:
            self.append(Route(self._prefix + path, partial(_answer, run), methods=[method]))
            return run

        return decorate


async def _answer(run: Endpoint, request: Request) -> Response:
    parts = request.path_params
    parts.update({name: part.replace(SLASH, "/") for name, part in parts.items() if isinstance(part, str)})
    try:
        value = await run(request)
    except ApiProblem as problem:
        return problem.response()
    except TidingsError as error:
        return answered({"error": error_facts(error)}, _STATUS.get(error.code, 502))
    except ClientDisconnect:
        return Response(status_code=400)
    except Exception:
        logger.exception("The inspector could not answer %s %r", request.method, request.scope["path"])
        message = "The inspector failed to do this."
        return ApiProblem(500, "unforeseen", message, "See its log.", who="this program").response()
    return value if isinstance(value, Response) else answered(value)


def answered(value: Any, status: int = 200) -> Response:
    """Returns a response with a JSON value; 204 for None."""
    headers = {"cache-control": "no-store"}
    if value is None:
        return Response(status_code=204, headers=headers)
    return Response(dumps(value), status, headers=headers, media_type="application/json")


def error_facts(error: BaseException) -> dict[str, Any] | None:
    """Returns an exception as the page shows it."""
    return error_of(error_view(error))


def error_of(view: ErrorView | None) -> dict[str, Any] | None:
    """Returns an error as the page shows it."""
    if view is None:
        return None
    page = "" if view.category in ("input", "program") else EXPLAINED_BY + view.code
    facts = {name: getattr(view, name) for name in ("code", "category", "who", "message", "cure")}
    payload = {} if view.payload is None else {"payload": view.payload}
    return {**facts, "help_page": view.help or page, **payload}


async def body(request: Request, largest: int = LARGEST_BODY) -> "Fields":
    """Returns the object that was sent. Raises `ApiProblem` if there is none, or it is too large."""
    message = f"The body is larger than {largest // 2**20} MB."
    too_large = ApiProblem(413, "body-too-large", message, "Send less at once.")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > largest:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > largest:
            raise too_large
        pieces.append(piece)
    try:
        value = json.loads(b"".join(pieces), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiProblem(400, "bad-json", f"The body is not JSON: {reason}.", "Send a JSON object.") from None
    if not isinstance(value, dict):
        raise ApiProblem(400, "bad-body", "The body is not a JSON object.", "Send a JSON object.")
    return Fields(cast("dict[str, Any]", value))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


@dataclass(frozen=True)
class Fields:
    """The fields of a body, each read with its type. Every method raises `ApiProblem` with the path of a mistake."""

    values: dict[str, Any]

    def text(self, name: str, default: str | None = None, *, empty: bool = False) -> str:
        """Returns a string. It must not be empty unless `empty` or `default` is given."""
        value = self._get(name, default)
        if not isinstance(value, str):
            self._wrong(name, "a string", value)
        if not value and not empty and default is None:
            raise _bad_field("bad-body", name, "is empty")
        return value

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        value = self._get(name, default)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else self._wrong(name, "an object", value)

    def texts(self, name: str, default: dict[str, str] | None = None) -> dict[str, str]:
        """Returns an object whose values are texts."""
        for key, value in (found := self.mapping(name, cast("dict[str, Any] | None", default))).items():
            if not isinstance(value, str):
                self._wrong(f"{name}.{key}", "a string", value)
        return found

    def number(self, name: str) -> float | None:
        """Returns a number above zero, or None if it is missing."""
        value = self.values.get(name)
        if value is not None and (not is_number(value) or not 0 < value < 1e9):
            self._wrong(name, "a number above 0", value)
        return None if value is None else float(value)

    def names(self, name: str) -> list[str] | None:
        """Returns a list of strings, or None if it is missing."""
        value = self.values.get(name)
        if value is not None and as_texts(value) != value:
            self._wrong(name, "a list of strings", value)
        return value

    def any(self, name: str) -> Any:
        """Returns any value, which must not be missing."""
        if name not in self.values:
            raise _bad_field("bad-body", name, "is missing")
        return self.values[name]

    def _get(self, name: str, default: Any) -> Any:
        return self.any(name) if default is None else self.values.get(name, default)

    def _wrong(self, name: str, wanted: str, value: object) -> NoReturn:
        raise _bad_field("bad-body", name, f"is {type_of(value)}, but must be {wanted}", f"Give {wanted}.")


def _bad_field(code: str, name: str, what: str, cure: str = "") -> ApiProblem:
    return ApiProblem(400, code, f"`{name}` {what}.", cure or f"Give `{name}`.", payload={"path": name.split(".")})


def number_of(request: Request, name: str, default: int | None = None) -> int:
    """Returns a whole number of the query. Raises `ApiProblem`."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not is_index(text):
        raise _bad_field("bad-query", name, "is not a whole number", f"Give `{name}` as a number.")
    return int(text)


def is_index(text: str) -> bool:
    """Returns whether a text is a whole number of a sensible size, from 0."""
    return text.isascii() and text.isdigit() and len(text) <= 15


def text_of(request: Request, name: str) -> str:
    """Returns a string of the query. Raises `ApiProblem` if it is missing."""
    text = request.query_params.get(name)
    if not text:
        raise _bad_field("bad-query", name, "is missing")
    return text


def one_of(what: str, name: str, there: Collection[str]) -> str:
    """Returns the name of something that there is. Raises `unknown` if there is none."""
    if name not in there:
        raise unknown(what, name, there)
    return name


def unknown(what: str, name: str, there: Iterable[str]) -> ApiProblem:
    """Returns the error that there is no such thing, with close names."""
    names = list(there)
    close = closest(name, names, most=3, cutoff=0.5)
    cure = question(close, str).strip() or ("" if names else f"There is no {what} yet.")
    code = f"no-such-{what.replace(' ', '-')}"
    return ApiProblem(404, code, f"There is no {what} {name!r}.", cure, payload={"close": close})

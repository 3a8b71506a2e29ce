"""What comes in as JSON and goes out as JSON, errors included.

An error is `{"error": {code, category, who, message, cure, help_page, payload?}}`: who is at fault, and what to do.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NoReturn, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tidings._kit.bounded_json import as_list, as_texts, dumps
from tidings._kit.suggest import closest
from tidings.errors import HELP_PAGES, TidingsError

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 32 * 2**20
"""Of a request's body. A file for a tool goes through here, as text."""
MOST_IMPORTED: Final = 256 * 2**20
"""Of a session that is imported."""

SLASH: Final = "\udcff"
"""Stands for a slash within a part of a path, until the part is known. No text that was decoded has it."""

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
    """What was asked for cannot be done. Becomes an error of the API."""

    def __init__(self, status: int, code: str, message: str, cure: str = "", *, who: str = "you", payload: Any = None):
        super().__init__(message)
        self.status = status
        self.facts = {
            "code": code,
            "category": "input" if who == "you" else "program",
            "who": who,
            "message": message,
            "cure": cure,
            "help_page": "",
            **({} if payload is None else {"payload": payload}),
        }


def endpoint(run: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that returns a value, or raises, as one that answers. None is answered with 204."""

    async def answer(request: Request) -> Response:
        parts: dict[str, Any] = request.scope.get("path_params", {})
        for name, part in parts.items():
            if isinstance(part, str):
                parts[name] = part.replace(SLASH, "/")
        try:
            value = await run(request)
        except ApiProblem as problem:
            return answered({"error": problem.facts}, problem.status)
        except TidingsError as error:
            return answered({"error": error_facts(error)}, _STATUS.get(error.code, 502))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            logger.exception("The inspector could not answer %s %r", request.method, request.scope["path"])
            facts = ApiProblem(
                500, "unforeseen", "The inspector could not do this.", "Its terminal says why.", who="this program"
            )
            return answered({"error": facts.facts}, 500)
        return value if isinstance(value, Response) else answered(value)

    return answer


def answered(value: Any, status: int = 200) -> Response:
    """A value as an answer."""
    headers = {"cache-control": "no-store"}
    if value is None:
        return Response(status_code=204, headers=headers)
    return Response(dumps(value), status, headers=headers, media_type="application/json")


def error_facts(error: BaseException) -> dict[str, Any]:
    """An error as the page shows it."""
    from tidings.inspector.view.error_report import error_data  # noqa: PLC0415 - the page is served before this is needed

    return shown_error(cast("dict[str, Any]", error_data(error)))


def shown_error(data: dict[str, Any]) -> dict[str, Any]:
    """The `ErrorData` of a record, or the fields of an `ErrorView`, as the page shows it."""
    code = data.get("code") or "unknown"
    page = data.get("help") or ""
    return {
        "code": code,
        "category": data.get("category") or "unknown",
        "who": data.get("who") or "this program",
        "message": data.get("message") or "",
        "cure": data.get("cure") or "",
        "help_page": page or (HELP_PAGES + code if data.get("category") not in ("input", "program", None) else ""),
        **({} if data.get("payload") is None else {"payload": data["payload"]}),
    }


async def body(request: Request, most: int = MOST_BYTES) -> "Fields":
    """The object that was sent.

    Raises:
        Problem: It is too large, or none.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        _too_large(most)
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            _too_large(most)
        pieces.append(piece)
    try:
        value = json.loads(b"".join(pieces), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiProblem(400, "bad-json", f"The body is not JSON: {reason}.", "Send a JSON object.") from None
    if not isinstance(value, dict):
        raise ApiProblem(400, "bad-body", "The body is not a JSON object.", "Send a JSON object.")
    return Fields(cast("dict[str, Any]", value))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _too_large(most: int) -> NoReturn:
    raise ApiProblem(413, "body-too-large", f"The body is larger than {most // 2**20} MB.", "Send less at once.")


class Fields:
    """The fields of a body, each asked for with its type. What is wrong is told with its path."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def text(self, name: str, default: str | None = None, *, empty: bool = False) -> str:
        """A text; not empty unless it may be."""
        value = self._get(name, default)
        if not isinstance(value, str):
            self._wrong(name, "a text", value)
        if not value and not empty and default is None:
            raise ApiProblem(400, "bad-body", f"`{name}` is empty.", f"Give `{name}`.", payload={"path": [name]})
        return value

    def mapping(self, name: str, default: dict[str, Any] | None = None) -> dict[str, Any]:
        """An object."""
        value = self._get(name, default)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else self._wrong(name, "an object", value)

    def texts(self, name: str, default: dict[str, str] | None = None) -> dict[str, str]:
        """An object whose values are texts."""
        for key, value in (found := self.mapping(name, cast("dict[str, Any] | None", default))).items():
            if not isinstance(value, str):
                self._wrong(f"{name}.{key}", "a text", value)
        return found

    def number(self, name: str) -> float | None:
        """A number above zero, or None if it is not there."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            self._wrong(name, "a number above 0", value)
        return float(value)

    def names(self, name: str) -> list[str] | None:
        """A list of texts, or None if it is not there."""
        value = self.values.get(name)
        if value is None:
            return None
        texts = as_texts(value)
        if not isinstance(value, list) or len(texts) != len(as_list(self.values[name])):
            self._wrong(name, "a list of texts", self.values[name])
        return texts

    def any(self, name: str) -> Any:
        """Anything, if it is there."""
        if name not in self.values:
            raise ApiProblem(400, "bad-body", f"`{name}` is missing.", f"Give `{name}`.", payload={"path": [name]})
        return self.values[name]

    def _get(self, name: str, default: Any) -> Any:
        return self.any(name) if default is None else self.values.get(name, default)

    def _wrong(self, name: str, wanted: str, value: object) -> NoReturn:
        kinds: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
        got = "null" if value is None else kinds.get(type(value), "a number")
        message = f"`{name}` is {got}, where {wanted} belongs."
        raise ApiProblem(400, "bad-body", message, f"Give {wanted}.", payload={"path": name.split(".")})


def number_of(request: Request, name: str, default: int | None = None) -> int:
    """A whole number of the query.

    Raises:
        Problem: It is none.
    """
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ApiProblem(
            400,
            "bad-query",
            f"`{name}` is not a whole number.",
            f"Give `{name}` as a number.",
            payload={"path": [name]},
        )
    return int(text)


def text_of(request: Request, name: str) -> str:
    """A text of the query.

    Raises:
        Problem: It is missing.
    """
    text = request.query_params.get(name)
    if not text:
        raise ApiProblem(400, "bad-query", f"`{name}` is missing.", f"Give `{name}`.", payload={"path": [name]})
    return text


def unknown(what: str, name: str, there: Iterable[str]) -> ApiProblem:
    """There is no such thing; these are close."""
    names = list(there)
    close = closest(name, names, most=3, cutoff=0.5)
    cure = f"Did you mean {' or '.join(close)}?" if close else f"There is no {what} yet." if not names else ""
    return ApiProblem(
        404, f"no-such-{what.replace(' ', '-')}", f"There is no {what} {name!r}.", cure, payload={"close": close}
    )

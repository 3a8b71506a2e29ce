"""A recorded session of one server, as a mock needs it: the answers to requests, and the times of changes."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import ErrorData

from tidings._kit.bounded_json import as_dict, as_float, as_int, as_list, as_text, dumps, head_of, in_order, is_cut
from tidings._kit.text import listed
from tidings.inspector.records import LIST_NAMES, Record
from tidings.inspector.view.fold import fold
from tidings.inspector.view.view import ServerView

ANSWERED: Final = ("tools/call", "prompts/get", "resources/read", "completion/complete")


class NothingRecorded(LookupError):
    """There is no recorded answer. The message lists the recorded ones."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded change."""

    after: float  # Seconds since the first record.
    change: str
    uri: str | None = None
    contents: list[Any] | None = None
    lists: Record | None = None


class Recording:
    """The recorded behaviour of one server."""

    def __init__(self, records: Iterable[Record], server: str | None = None) -> None:
        """Reads the records of a session, in order. `server` must be named if there are several.

        Raises `LookupError` if no such server was connected, or there are several and none is named.
        """
        kept = list(records)
        names = list(dict.fromkeys(record.server for record in kept if record.kind == "hello"))
        if server is None and len(names) != 1:
            connected = ", ".join(names) or "none"
            raise LookupError(f"Name a server of the session. These were connected: {connected}.")
        self.server = names[0] if server is None else server
        if self.server not in names:
            were = ", ".join(names)
            raise LookupError(f"The session has no server {server!r} that was connected. These were: {were}.")
        self.view = ServerView(self.server)  # The server at the end.
        self.first = ServerView(self.server)  # The server after its lists were loaded once.
        self.contents: dict[str, list[Any]] = {}  # The last content of each resource.
        self.first_contents: dict[str, list[Any]] = {}
        self.steps: list[RecordedStep] = []
        # For each method: the parameters of each recorded request, and its answers in order.
        self._answers: dict[str, dict[str, tuple[dict[str, Any], deque[Any]]]] = {method: {} for method in ANSWERED}
        self._read([record for record in kept if record.server == self.server and record.kind != "server"])

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Returns the next recorded answer, a result or `ErrorData`; the last one again and again.

        Raises `NothingRecorded` if there is none.
        """
        known = self._answers[method]
        if (found := known.get(_key(params))) is not None:
            answers = found[1]
            return answers.popleft() if len(answers) > 1 else answers[0]

        def subject(params: dict[str, Any]) -> Any:
            return params.get("name") or params.get("uri")

        name, recorded = subject(params), [each for each, _ in known.values()]
        same = [head_of(as_dict(each.get("arguments")), 200) for each in recorded if subject(each) == name]
        if not same:
            names = listed(sorted({str(subject(each)) for each in recorded}), 10, none="none")
            raise NothingRecorded(f"No answer of {name} was recorded. These were: {names}.")
        wanted = head_of(as_dict(params.get("arguments")), 200)
        raise NothingRecorded(f"{name} was not recorded with {wanted}. It was recorded with: {listed(same, 10)}.")

    def _read(self, records: list[Record]) -> None:
        began = records[0].at if records else 0.0
        seen: set[str] = set()
        requests: dict[str, dict[str, Any]] = {}
        shown_by = {
            known: _contents(record.data)
            for record in records
            if record.kind == "content" and (known := as_int(record.data.get("change"))) is not None
        }
        for record in records:
            fold(self.view, record)
            data = record.data
            match record.kind:
                case "hello":
                    fold(self.first, record)
                case "list":
                    self._list(record, seen, record.at - began)
                case "request":
                    request = requests.setdefault(str(data.get("id")), {})
                    request |= data
                    self._request(request)
                case "content":
                    self._content(data)
                case "change" if data.get("change") == "resource-updated":
                    contents, uri = shown_by.get(record.seq), as_text(data.get("uri"))
                    self.steps.append(RecordedStep(record.at - began, "resource-updated", uri, contents))
                case _:
                    pass

    def _list(self, record: Record, seen: set[str], after: float) -> None:
        name = as_text(record.data.get("list")) or ""
        if name not in LIST_NAMES or record.data.get("error") is not None:
            return
        if name not in seen:
            seen.add(name)
            fold(self.first, record)
        elif any(record.data.get(what) for what in ("added", "removed", "changed", "order")):
            kind = "resources" if name == "templates" else name
            self.steps.append(RecordedStep(after, f"{kind}-list-changed", lists=record))

    def _content(self, data: dict[str, Any]) -> None:
        uri, contents = as_text(data.get("uri")), _contents(data)
        if uri is not None and contents is not None:
            self.first_contents.setdefault(uri, contents)
            self.contents[uri] = contents

    def _request(self, request: dict[str, Any]) -> None:
        method = as_text(request.get("method")) or ""
        if method not in ANSWERED or request.get("status") not in ("completed", "error"):
            return
        params = as_dict(request.get("params"))
        answer: Any = request.get("result")
        if request.get("status") == "error":
            error = as_dict(request.get("error"))
            payload = as_dict(error.get("payload"))
            if (code := as_int(payload.get("rpc_code"))) is None:
                return  # It is not an answer of the server.
            message = as_text(error.get("message")) or ""
            answer = ErrorData(code=code, message=message, data=payload.get("rpc_data"))
        elif is_cut(answer):
            size = as_float(as_dict(answer).get("size")) or 0
            message = f"The recorded answer was too large to be stored ({size:,.0f} bytes)."
            answer = ErrorData(code=-32603, message=message)
        elif not isinstance(answer, dict):
            return
        self._answers[method].setdefault(_key(params), (params, deque()))[1].append(answer)
        if method == "resources/read" and isinstance(answer, dict):
            self._content({"uri": params.get("uri"), "contents": as_list(as_dict(answer).get("contents"))})  # pyright: ignore[reportUnknownArgumentType]


def _contents(data: dict[str, Any]) -> list[Any] | None:
    found: object = data.get("contents")
    return as_list(found) if isinstance(found, list) else None  # pyright: ignore[reportUnknownArgumentType]


def _key(params: dict[str, Any]) -> str:
    wanted = {key: params.get(key) for key in ("name", "uri", "ref", "argument") if params.get(key) is not None}
    return dumps(in_order({**wanted, "arguments": as_dict(params.get("arguments"))}))

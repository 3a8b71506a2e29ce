"""Requests and what came of them, as words and pages: how far they are, the result, the error and who is at fault."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tidings.inspector.reading import as_dict
from tidings.inspector.tui.contents import block_page, contents_page, cut_page, is_cut, json_page, text_of
from tidings.inspector.tui.pages import Joined, Page, Prose, Words
from tidings.inspector.tui.words import clock, compact, one_line, size, took
from tidings.inspector.view_items import ErrorView, RequestView
from tidings.inspector.views import ServerView

Parts = list[tuple[str, str]]


def subject_of(request: RequestView) -> str:
    """What a request is about: the tool and its arguments, the resource, the prompt."""
    params = request.params
    subject = params.get("name") or params.get("uri") or ""
    arguments = params.get("arguments")
    return f"{subject} {compact(arguments)}" if arguments else str(subject)


def request_state(request: RequestView, now: float) -> tuple[str, str]:
    """How a request stands, and the colour of that."""
    match request.status:
        case "completed":
            return (took(request.took) or "done", "bad" if failed(request) else "faint")
        case "error":
            return "failed", "bad"
        case "cancelled":
            return "cancelled", "warn"
        case "pending":
            return "waiting", "soft"
        case _:
            return progress_words(request, now), "accent"


def failed(request: RequestView) -> bool:
    """Whether a tool said that it failed."""
    return as_dict(request.result).get("isError") is True


def progress_words(request: RequestView, now: float) -> str:
    """How far it is, with numbers."""
    since = took(max(0.0, now - request.started_at)) if request.started_at is not None else ""
    if request.progress is None:
        return f"running {since}".strip()
    if request.total:
        return f"{min(100.0, 100 * request.progress / request.total):.0f} % in {since}"
    return f"{request.progress:g} in {since}"


def error_page(error: ErrorView) -> Page:
    """What went wrong, who is at fault, what to do, and what was sent."""
    whose = {"you": "What was asked for is at fault", "this program": "Tidings is at fault"}
    fault = whose.get(error.who, f"{error.who.capitalize()} is at fault")
    lines: list[Parts] = [[("✕ ", "bad"), (fault, "b-bad"), (f"   {one_line(error.code)}", "faint")], []]
    pages: list[Page] = [Words(*lines), Prose(error.message)]
    if error.cure:
        pages += [Words([], [("What to do", "b-ink")]), Prose(error.cure)]
    if error.help:
        pages.append(Words([], [(one_line(error.help), "faint")]))
    if error.payload is not None:
        pages += [Words([], [("What was sent", "b-ink")]), json_page(error.payload)]
    return Joined(pages)


def result_page(result: Any, problems: list[str] | None = None) -> Page:
    """What a server answered, as what it is: a tool's result, contents of a resource, a prompt's messages."""
    if is_cut(result):
        return cut_page(result)
    if not isinstance(result, Mapping):
        return json_page(result)
    answer = cast("Mapping[str, Any]", result)
    if isinstance(answer.get("contents"), list):
        return contents_page(answer["contents"])
    if isinstance(answer.get("messages"), list):
        return Joined([page for message in answer["messages"] for page in message_pages(message)])
    if not isinstance(answer.get("content"), list):
        return json_page(answer)
    pages: list[Page] = []
    if answer.get("isError") is True:
        pages.append(Words([("✕ ", "bad"), ("The tool says that it failed", "b-bad")], []))
    pages += [_block(block) for block in answer["content"]]
    if "structuredContent" in answer:
        pages += [Words([], structured_words(problems)), json_page(answer["structuredContent"])]
    if not pages:
        pages.append(Words([("The tool answered, with nothing.", "soft")]))
    return Joined(pages)


def structured_words(problems: list[str] | None) -> Parts:
    """Whether the structured output is what the tool promised."""
    title: Parts = [("Structured output", "b-ink")]
    if problems is None:
        return title
    if not problems:
        return [*title, ("  ✓ fits its schema", "ok")]
    return [*title, ("  ✕ breaks its schema: ", "bad"), (one_line("; ".join(problems), 400), "bad")]


def _block(block: Any) -> Page:
    return block_page(cast("Mapping[str, Any]", block)) if isinstance(block, Mapping) else json_page(block)


def message_pages(message: Any) -> list[Page]:
    """Who says what: a message of a prompt or of a conversation."""
    if not isinstance(message, Mapping):
        return [json_page(message)]
    said = cast("Mapping[str, Any]", message)
    content = said.get("content")
    blocks = cast("list[Any]", content) if isinstance(content, list) else [content]
    return [Words([(one_line(said.get("role") or "?"), "b-accent")]), *map(_block, blocks), Words([])]


def request_page(request: RequestView, problems: list[str] | None = None) -> Page:
    """A request with all that is known of it."""
    facts: Parts = [
        (one_line(request.method), "b-ink"),
        (f"   asked at {clock(request.created_at, millis=True)}", "soft"),
    ]
    if request.took is not None:
        facts.append((f", took {took(request.took)}", "soft"))
    if request.result_size:
        facts.append((f", {size(request.result_size)}", "soft"))
    if request.attempts > 1:
        facts.append((f", {request.attempts} attempts", "warn"))
    pages: list[Page] = [Words(facts)]
    if request.params:
        pages += [Words([], [("Asked", "b-ink")]), json_page(request.params)]
    pages.append(Words([]))
    pages.append(outcome_page(request, problems))
    return Joined(pages)


def outcome_page(request: RequestView, problems: list[str] | None = None) -> Page:
    """What came of a request so far."""
    if request.status == "cancelled":
        words = Words([("Cancelled. ", "b-warn"), ("What it had done by then, the server knows.", "soft")])
        return words if request.error is None else Joined([words, Words([]), Prose(request.error.message, "soft")])
    if request.error is not None:
        return error_page(request.error)
    if request.status == "completed":
        return result_page(request.result, problems)
    words = one_line(request.message) if request.message else "x cancels it."
    return Words(
        [("Running. " if request.status == "in_progress" else "Waiting for its turn. ", "b-accent"), (words, "soft")]
    )


@dataclass(frozen=True, slots=True)
class Read:
    """A content that somebody asked for, as a version beside those that a subscription brought."""

    seq: int
    at: float
    uri: str
    contents: Any

    @property
    def text(self) -> str:
        """All its text."""
        return text_of(self.contents)


def versions_of(view: ServerView, uri: str) -> list[Any]:
    """Every version of a resource that is known, oldest first: those of its subscription, and those that were read."""
    versions: list[Any] = list(view.contents.get(uri) or ())
    known = [version.contents for version in versions]
    for request in view.requests.values():
        contents = _contents_read(request, uri)
        if contents is not None and contents not in known:
            known.append(contents)
            versions.append(Read(-request.seq, request.completed_at or 0.0, uri, contents))
    return sorted(versions, key=lambda version: version.at)


def _contents_read(request: RequestView, uri: str) -> Any:
    if request.method != "resources/read" or request.params.get("uri") != uri or request.status != "completed":
        return None
    if is_cut(request.result):
        return request.result
    return as_dict(request.result).get("contents")


def failed_read(view: ServerView, uri: str, versions: list[Any]) -> ErrorView | None:
    """Why the last reading of a resource failed, if nothing was read since."""
    newest = versions[-1].at if versions else 0.0
    for request in reversed(view.requests.values()):
        if request.method == "resources/read" and request.params.get("uri") == uri and not request.aside:
            return request.error if request.error is not None and (request.completed_at or 0.0) > newest else None
    return None

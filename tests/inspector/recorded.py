"""Records for tests: of everything, and of anything."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tidings.inspector.records import Record
from tidings.inspector.sessions.saved import export_lines

KINDS = (
    "server", "state", "hello", "list", "message", "exchange", "request", "progress", "task", "change",
    "changes-missed", "content", "content-failed", "subscriptions", "subscription-failed", "log", "stderr", "garbage",
    "notification",
    "question", "answered", "answer-time", "missed", "of-a-later-version",
)  # fmt: skip

KEYS = (
    "what", "entry", "state", "tries", "next_retry", "error", "message", "transport", "protocol_version", "server_info",
    "capabilities", "pid", "list", "added", "removed", "changed", "order", "duplicates", "malformed", "incoming",
    "body", "size", "exchange", "id", "method", "url", "request_headers", "status", "began", "ended", "params", "aside",
    "result", "result_size", "progress", "total", "change", "uri", "cursor", "times", "merged", "contents", "hash",
    "took", "uris", "level", "logger", "data", "text", "kind", "deadline", "outcome", "answer", "ms", "count", "name",
    "uriTemplate", "request", "ttl", "created_at", "pending",
)  # fmt: skip

WORDS = (
    "added", "changed", "removed", "connected", "error", "disconnected", "tools", "resources", "templates", "prompts",
    "completed", "pending", "cancelled", "resource-updated", "a://1", "a://1/part", "a://*", "r1", "q1", "", "\ud800",
)  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
datas = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)


@st.composite
def sessions(draw: st.DrawFn) -> list[Record]:
    """Any sequence of records, of two servers."""
    told = draw(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(("a", "b")), datas), max_size=25))
    return [Record(seq, 1000.0 + seq / 8, server, kind, data) for seq, (kind, server, data) in enumerate(told, 1)]


class Writer:
    """Makes records, one after the other."""

    def __init__(self, server: str = "vault") -> None:
        self.server = server
        self.records: list[Record] = []

    def __call__(self, kind: str, at: float | None = None, /, **data: Any) -> Record:
        seq = len(self.records) + 1
        record = Record(seq, 1000.0 + seq if at is None else at, self.server, kind, data)
        self.records.append(record)
        return record


def export_session(records: Iterable[Record], path: Path) -> None:
    """Write a session to a file, as the page's export does."""
    path.write_text("".join(f"{line}\n" for line in export_lines(records)), encoding="ascii")

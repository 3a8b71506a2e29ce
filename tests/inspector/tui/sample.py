"""A session like the one that the drawings show: a vault, a web server, one that was lost, one not connected."""

from typing import Any

from tests.inspector.tui.inspector import NOW, Told

PLAN = [
    "# Launch plan",
    "",
    "Owner: [[Ada]]",
    "",
    "## Goals",
    "",
    "- ship it",
    "",
    "",
    "",
    "",
    "## Milestones",
    "",
    "- [ ] Freeze the API by Friday",
    "- [ ] Docs reviewed by [[Ada]]",
    "",
    "## Open questions",
    "Who writes the migration guide?",
]
PLAN_AFTER = [
    *PLAN[:13],
    "- [x] Freeze the API on 14 November",
    "- [ ] Docs reviewed by [[Ada]]",
    "- [ ] Announce in [[Newsletter]] #launch",
    "",
    "## Open questions",
    "The migration guide is with [[Ada]]; the draft is due on Monday.",
]
PLAN_URI = "vault://note/Projects/Launch plan.md"

TOOLS: list[dict[str, Any]] = [
    {
        "name": "search",
        "description": "Find notes by words, tags and properties.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "what to look for"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
                "order": {
                    "oneOf": [
                        {"const": "new", "title": "Newest first"},
                        {"const": "old", "title": "Oldest first"},
                    ]
                },
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["query"],
        },
        "outputSchema": {"type": "object", "properties": {"found": {"type": "integer"}}, "required": ["found"]},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "delete_note",
        "description": "Move a note to the trash.",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        "annotations": {"destructiveHint": True},
    },
    {
        "name": "schedule",
        "description": "By date, or by a rule.",
        "inputSchema": {
            "anyOf": [{"$ref": "#/$defs/Once"}, {"$ref": "#/$defs/Rule"}],
            "$defs": {
                "Once": {
                    "title": "Once",
                    "type": "object",
                    "properties": {"on": {"type": "string", "format": "date"}},
                    "required": ["on"],
                },
                "Rule": {
                    "title": "Rule",
                    "type": "object",
                    "properties": {
                        "every": {"enum": ["day", "week"]},
                        "times": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
                    },
                    "required": ["every"],
                },
            },
        },
    },
    *(
        {"name": f"tool_{number}", "description": "One of many.", "inputSchema": {"type": "object"}}
        for number in range(11)
    ),
]

URIS = ["recent", "tags", "note/Inbox.md", "folder/Projects", "backlinks/People/Ada.md", "stats", "search/launch"]


async def sample() -> Told:
    session = Told()
    name = "My vault"
    for server, entry in {
        name: {"command": "tidings", "args": ("vault", "~/Notes")},
        "Web pages": {"url": "http://127.0.0.1:8001/mcp"},
        "weather": {"url": "http://127.0.0.1:8002/mcp"},
        "everything": {"command": "npx", "args": ("server-everything",)},
    }.items():
        await session.add(server, **entry)
    for server in (name, "Web pages", "weather"):
        session.record(server, "state", state="connecting", at=NOW - 400)
        session.record(server, "state", state="connected", at=NOW - 400)
        session.record(
            server,
            "hello",
            at=NOW - 400,
            transport="stdio" if server == name else "http",
            protocol_version="2026-07-28",
            server_info={"name": server, "version": "1"},
            capabilities={"tools": {}, "resources": {"subscribe": True}, "logging": {}},
        )
    session.record(
        "weather",
        "state",
        at=NOW - 2,
        state="error",
        tries=2,
        next_retry=NOW + 3,
        error={"message": "The server closed the connection", "who": "the network", "code": "connection-lost"},
    )
    session.record(name, "list", list="tools", added=TOOLS, total=len(TOOLS), at=NOW - 399)
    resources = [{"uri": PLAN_URI, "name": "Launch plan", "mimeType": "text/markdown"}]
    resources += [{"uri": f"vault://{uri}", "name": uri} for uri in URIS]
    resources += [
        {"uri": f"vault://note/Archive/{year}/{number:04}.md", "name": "note"}
        for year in (2024, 2025)
        for number in range(500)
    ]
    session.record(name, "list", list="resources", added=resources, total=len(resources), at=NOW - 399)
    templates = [{"uriTemplate": "vault://note/{+path}", "name": "A note", "description": "By its path."}]
    session.record(name, "list", list="templates", added=templates, total=1, at=NOW - 399)
    prompts = [
        {"name": "daily", "description": "Brief me on today.", "arguments": [{"name": "date", "required": True}]},
        {"name": "links", "description": "What a note is linked with.", "arguments": [{"name": "note"}]},
    ]
    session.record(name, "list", list="prompts", added=prompts, total=2, at=NOW - 399)
    session.record(name, "subscriptions", uris=[PLAN_URI, "vault://recent", "vault://tags"], at=NOW - 398)
    _wire(session, name)
    _changes(session, name)
    session.record(
        name,
        "question",
        at=NOW - 20,
        id="ask-1",
        kind="elicitation",
        message="Which calendar should the brief use?",
        deadline=NOW + 280,
        params={
            "mode": "form",
            "message": "Which calendar should the brief use?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "calendar": {"type": "string", "enum": ["work", "home"], "enumNames": ["Work", "Home"]},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 7},
                },
                "required": ["calendar"],
            },
        },
    )
    return session


def _wire(session: Told, name: str) -> None:
    def message(at: float, incoming: bool, **body: Any) -> None:
        session.record(name, "message", at=at, incoming=incoming, body={"jsonrpc": "2.0", **body}, size=120)

    message(NOW - 398, False, id=1, method="tools/list", params={})
    message(NOW - 397.996, True, id=1, result={"tools": TOOLS[:1]})
    message(NOW - 60, False, id=2, method="tools/call", params={"name": "search", "arguments": {"query": "tea"}})
    message(NOW - 59.98, True, id=2, result={"content": [{"type": "text", "text": "3 notes"}]})
    message(NOW - 30, False, id=3, method="resources/read", params={"uri": "vault://nothing"})
    message(NOW - 29.99, True, id=3, error={"code": -32002, "message": "There is no such resource"})
    message(NOW - 0.002, True, method="notifications/resources/updated", params={"uri": PLAN_URI})
    session.record(
        name,
        "request",
        at=NOW - 60,
        id="q1",
        method="tools/call",
        status="completed",
        attempts=1,
        params={"name": "search", "arguments": {"query": "tea", "limit": 20}},
        created_at=NOW - 60,
        started_at=NOW - 60,
        completed_at=NOW - 59.98,
        result_size=92,
        result={
            "content": [{"type": "text", "text": "3 notes have “tea” in them."}],
            "structuredContent": {"found": 3},
        },
    )
    session.record(
        name,
        "request",
        at=NOW - 30,
        id="q2",
        method="resources/read",
        status="error",
        params={"uri": "vault://nothing"},
        attempts=1,
        created_at=NOW - 30,
        started_at=NOW - 30,
        completed_at=NOW - 29.99,
        error={
            "message": "There is no such resource: vault://nothing",
            "code": "server-error",
            "who": "the server",
            "cure": "Look at what it lists under Resources.",
            "payload": {"code": -32002, "message": "There is no such resource"},
        },
    )
    session.record(
        name,
        "request",
        at=NOW - 9,
        id="q3",
        method="tools/call",
        status="in_progress",
        attempts=1,
        params={"name": "search", "arguments": {"query": "everything"}},
        created_at=NOW - 9,
        started_at=NOW - 9,
    )
    session.record(name, "progress", at=NOW - 1, id="q3", progress=42, total=100, message="reading Archive/2024")
    for number, level in enumerate(["debug", "info", "notice", "warning", "error"]):
        session.record(
            name, "log", at=NOW - 50 + number, level=level, logger="vault.index", data=f"{level}: what the index said"
        )
    session.record(name, "stderr", at=NOW - 390, text="Indexed 1,007 notes in 0.8 s")
    session.record(name, "garbage", at=NOW - 100, text="hello from a print()")


def _changes(session: Told, name: str) -> None:
    def content(at: float, lines: list[str], change: int | None) -> None:
        text = "\n".join(lines)
        session.record(
            name,
            "content",
            at=at,
            uri=PLAN_URI,
            hash=str(len(text)),
            size=len(text),
            took=0.004,
            change=change,
            changes=1,
            contents=[{"uri": PLAN_URI, "mimeType": "text/markdown", "text": text}],
        )

    content(NOW - 133, [*PLAN[:4], *PLAN[6:]], None)
    for number in range(140):
        at = NOW - 290 + number * 2
        merged = 3 if number % 4 == 1 else 0
        session.record(
            name,
            "change",
            at=at,
            change="resource-updated",
            uri=f"vault://{URIS[number % 7]}",
            times={"source": at - 0.010, "published": at - 0.003, "received": at},
            merged=merged,
        )
        if number == 80:
            content(NOW - 88, PLAN, None)
        if number == 100:
            session.record(name, "change", at=at, change="tools-list-changed")
        if number == 120:
            session.record(name, "change", at=at, change="resources-list-changed")
    last = session.record(
        name,
        "change",
        at=NOW - 0.004,
        change="resource-updated",
        uri=PLAN_URI,
        times={"source": NOW - 0.014, "published": NOW - 0.005, "received": NOW - 0.004},
        merged=0,
    )
    content(NOW, PLAN_AFTER, last.seq)
    session.record(name, "answer-time", at=NOW - 0.002, ms=2.0)

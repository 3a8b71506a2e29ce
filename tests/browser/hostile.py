"""A hand-written legacy server that can lie: scripts in everything, floods, sizes, schemas."""

import base64
import json
import os
import sys
from typing import Any

ELSEWHERE = f"http://127.0.0.1:{os.environ.get('ELSEWHERE', '9')}"
"""Where nothing may come from, or go."""
SCRIPT = "<img src=x onerror=window.__ran=1><script>window.__ran=1</script>"
LINK = "javascript:window.__ran=1"
PAGE = f"<!doctype html><h1>Hello</h1>{SCRIPT}<script src={ELSEWHERE}/x.js></script><img src={ELSEWHERE}/x>"
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" onload="window.__ran=1">'
    '<script>parent.__ran=1</script><circle r="9"/></svg>'
)
MARKDOWN = (
    f"# {SCRIPT}\n\n[click]({LINK}) ![x]({ELSEWHERE}/x.png)\n\n"
    f"<b onclick='window.__ran=1'>bold</b>\n\n```html\n{SCRIPT}\n```\n"
)
TURNED = "\u202egnihtemos\u202c"
"""Words whose direction is turned."""
LARGE = 2**63 - 1
"""No number of JavaScript: the nearest is one more."""
COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]

ANY: dict[str, Any] = {"type": "object"}
FORMS: dict[str, Any] = {
    "either": {
        "anyOf": [
            {"type": "object", "title": "By name", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            {"type": "object", "title": "By number", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        ]
    },
    "trip": {
        "type": "object",
        "$defs": {
            "Stop": {
                "type": "object",
                "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "integer", "minimum": 1}},
                "required": ["city"],
            }
        },
        "properties": {
            "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "colour": {"oneOf": COLOURS},
            "note": {"type": ["string", "null"]},
        },
        "required": ["stops"],
    },
    "large": {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": LARGE},
            "one": {"enum": [LARGE - 1, LARGE - 2]},
            "some": {"type": "array", "items": {"type": "integer"}, "default": [LARGE]},
            "which": {"anyOf": [{"type": "string", "title": "Text"}, {"enum": [LARGE], "title": "Number"}]},
        },
    },
    "liar": {"type": "nonsense", "properties": 7, "required": "all", "$ref": "#/nowhere"},
}
OUTPUT = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


def tools() -> list[Any]:
    found: list[Any] = [
        {"name": name, "description": "A form.", "inputSchema": schema} for name, schema in FORMS.items()
    ]
    found += [
        {"name": SCRIPT, "title": SCRIPT, "description": f"{SCRIPT} [x]({LINK})", "inputSchema": ANY},
        {
            "name": f"turned{TURNED}",
            "title": TURNED,
            "description": f"Does {TURNED}.",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "string", "title": TURNED, "description": TURNED}},
            },
        },
        {"name": "twice", "description": "the first", "inputSchema": ANY},
        {"name": "twice", "description": "the second", "inputSchema": ANY},
        {"name": "hostile", "description": "Gives scripts.", "inputSchema": ANY},
        {"name": "broken", "description": "Gives what its schema forbids.", "inputSchema": ANY, "outputSchema": OUTPUT},
        {"name": "refuse", "description": "Answers with an error.", "inputSchema": ANY},
        {
            "name": "flood",
            "description": "Sends many at once.",
            "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}},
        },
        {"name": "far", "description": "Counts in nanoseconds, and never ends.", "inputSchema": ANY},
        {"name": "garbage", "description": "Sends what is no message.", "inputSchema": ANY},
        {"inputSchema": ANY, "description": "has no name"},
        "not a tool at all",
    ]
    return found + [
        {"name": f"tool_{n:04}", "description": f"number {n}", "inputSchema": ANY} for n in range(int(many or 0))
    ]


RESOURCES = {
    "page://hostile": ("text/html", PAGE),
    "drawing://hostile": ("image/svg+xml", DRAWING),
    "note://hostile.md": ("text/markdown", MARKDOWN),
    f"x://{SCRIPT}": ("text/plain", SCRIPT),
    "note://turned.md": ("text/markdown", f"# {TURNED}\n"),
    "json://broken": ("application/json", '{"a": [1, 2'),
    "code://script": ("text/javascript", "window.__ran=1"),
    "big://json": ("application/json", ""),
    "big://text": ("text/plain", ""),
    "bytes://some": ("application/octet-stream", b"\0\1\2\xff" * 500),
}


def content(uri: str) -> dict[str, Any]:
    kind, text = RESOURCES[uri]
    if isinstance(text, bytes):
        return {"uri": uri, "mimeType": kind, "blob": base64.b64encode(text).decode()}
    if uri == "big://json":
        text = json.dumps([{"id": n, "name": f"item {n}", "tags": ["a", "b"], "on": True} for n in range(75_000)])
    elif uri == "big://text":
        text = "".join(f"line {n:07} of a very long text, which goes on\n" for n in range(1_000_000))
    return {"uri": uri, "mimeType": kind, "text": text}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "broken":
            return {"content": [], "structuredContent": {"total": "many"}}
        case "flood":
            count = int(arguments.get("count", 5000))
            params = [{"level": "info", "logger": "flood", "data": f"flood {n}"} for n in range(count)]
            lines = [json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": p}) for p in params]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            return {"content": [{"type": "text", "text": f"{count} sent"}]}
        case "garbage":
            sys.stdout.write("this is no JSON {\n[1,2\n")
            return {"content": [{"type": "text", "text": "sent"}]}
        case "hostile":
            resource = {"uri": LINK, "mimeType": "text/html", "text": PAGE}
            return {
                "isError": True,
                "content": [
                    {"type": "text", "text": SCRIPT},
                    {"type": "resource", "resource": resource},
                    {"type": "resource_link", "uri": LINK, "name": SCRIPT},
                    {"type": "image", "mimeType": "image/svg+xml", "data": base64.b64encode(DRAWING.encode()).decode()},
                    {"type": SCRIPT},
                ],
            }
        case _:
            return {"content": [{"type": "text", "text": json.dumps({"name": name, "arguments": arguments})}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: PLR0911 - one a method
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}},
                "serverInfo": {"name": f"hostile {SCRIPT}", "version": SCRIPT},
                "instructions": MARKDOWN,
            }
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri, "mimeType": kind} for uri, (kind, _) in RESOURCES.items()]}
        case "resources/read":
            return {"contents": [content(params["uri"])]}
        case "prompts/list":
            return {"prompts": [{"name": SCRIPT, "description": SCRIPT, "arguments": [{"name": SCRIPT}]}]}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "text", "text": SCRIPT}}]}
        case _:
            return {}


def go_far(token: Any) -> None:
    """Tell how far it is, and ask for something, in numbers that are too large for JavaScript."""
    params = {"progressToken": token, "progress": 10**18, "total": 2 * 10**18}
    for said in ({"method": "notifications/progress", "params": params}, {"id": LARGE, "method": "ping"}):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **said}) + "\n")
    sys.stdout.flush()


def main() -> None:
    sys.stderr.write(f"{SCRIPT}\n")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        params: dict[str, Any] = asked.get("params") or {}
        if asked["method"] == "tools/call" and params.get("name") == "far":
            go_far(params["_meta"]["progressToken"])
            continue
        if asked["method"] == "tools/call" and params.get("name") == "refuse":
            said["error"] = {"code": -32000, "message": SCRIPT, "data": {"why": SCRIPT}}
        else:
            said["result"] = answer(asked["method"], params)
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


many = sys.argv[1] if len(sys.argv) > 1 else "0"
if __name__ == "__main__":
    main()

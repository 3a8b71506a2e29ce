"""A tiny MCP server without an SDK, which behaves as its arguments say. For tests of what a client makes of that."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

BEHAVIOUR = set(sys.argv[1:])
TOOLS = [
    {
        "name": "add",
        "description": "Add two numbers.\n\nThe second paragraph is not for tables.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 1}},
            "required": ["a", "b"],
        },
    },
    {"name": "say", "title": "Say it", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "lie", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["sum"]}},
    {"name": "draw", "inputSchema": {"type": "object"}},
    {"name": "break", "inputSchema": {"type": "object"}},
    {"name": "die", "inputSchema": {"type": "object"}},
]
if "CALLS_FILE" in os.environ:
    TOOLS += [{"name": name, "inputSchema": {"type": "object"}} for name in ("greet", "wait")]
RESOURCES = [
    {"uri": "note://one", "name": "one", "mimeType": "text/plain", "description": "The first note."},
    {"uri": "note://two", "name": "two"},
    {"uri": "bin://dot", "name": "dot", "mimeType": "image/png"},
]
PROMPTS = [
    {"name": "ask", "description": "Ask.", "arguments": [{"name": "city", "required": True}, {"name": "style"}]},
    {"name": "talk"},
]
CONTENTS = {
    "note://one": [{"uri": "note://one", "text": "first \x1b[31mred"}],
    "note://two": [{"uri": "note://two", "text": "a"}, {"uri": "note://two/b", "text": "b"}],
    "bin://dot": [{"uri": "bin://dot", "mimeType": "image/png", "blob": "iVBORwA="}],
    "bin://lie": [{"uri": "bin://lie", "blob": "!!"}],
    "bin://evil": [{"uri": "bin://evil/..", "blob": "iVBORwA="}, {"uri": "bin://evil/\x00", "blob": "iVBORwA="}],
    "note://half": [{"uri": "note://half", "text": "half \ud800"}],
    "note://none": [{"uri": "note://none"}],
}

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"type": "string", "enum": ["a", "b"], "enumNames": ["Alpha", "Beta"], "description": "Which?"},
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}
QUESTIONS = {
    "asks": {
        "method": "elicitation/create",
        "params": {"message": "Who are you?", "requestedSchema": FORM, "mode": "form"},
    },
    "links": {
        "method": "elicitation/create",
        "params": {"message": "Sign in", "mode": "url", "url": "https://example.com/in", "elicitationId": "e1"},
    },
    "samples": {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Who am I?"}}],
            "systemPrompt": "Be brief.",
            "maxTokens": 9,
        },
    },
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(message: dict[str, Any], result: Any) -> None:
    send({"id": message["id"], "result": result})


def refuse(message: dict[str, Any], code: int, text: str, data: Any = None) -> None:
    send({"id": message["id"], "error": {"code": code, "message": text, **({"data": data} if data else {})}})


def handle(message: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one branch for each method
    method, params = message.get("method"), message.get("params", {})
    match method:
        case "server/discover" if "modern" in BEHAVIOUR:
            answer(
                message,
                {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                    "resultType": "complete",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "odd", "version": "2"}},
                },
            )
        case "server/discover" if "only-newer" in BEHAVIOUR:
            refuse(message, -32022, "Unsupported", {"supported": ["2099-01-01"], "requested": "2026-07-28"})
        case "server/discover" if "mute" in BEHAVIOUR:
            pass
        case "initialize":
            initialize(message)
        case "ping":
            answer(message, {})
        case "tools/list":
            list_tools(message, params)
        case "resources/list":
            more = [{"uri": "bin://a dot", "name": "a dot"}, {"uri": "bin://\n", "name": "?"}]
            answer(message, {"resources": RESOURCES + (more if "spaced" in BEHAVIOUR else [])})
        case "resources/templates/list" if "templates" in BEHAVIOUR:
            answer(message, {"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "note"}]})
        case "resources/read":
            read(message, params["uri"])
        case "prompts/list":
            answer(message, {"prompts": PROMPTS})
        case "prompts/get":
            prompt(message, params)
        case "tools/call":
            call(message, params)
        case "tasks/cancel" if "forgetful" in BEHAVIOUR:
            answer(message, {"resultType": "complete"})
        case "tasks/get" if "forgetful" in BEHAVIOUR:
            refuse(message, -32602, "Unknown task")
        case _:
            refuse(message, -32601, f"no {method}")


def initialize(message: dict[str, Any]) -> None:
    if "dies" in BEHAVIOUR:
        sys.stderr.write("no licence: token=hush-hush-123\n")
        sys.exit(3)
    version = "2099-01-01" if "newer" in BEHAVIOUR else "2025-11-25"
    server = {"name": "odd", "version": "1", "title": "An odd server"}
    capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
    told = {"instructions": "Be odd."}
    if "no-capabilities" in BEHAVIOUR:
        answer(message, {"protocolVersion": version})
        return
    answer(message, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server, **told})


def list_tools(message: dict[str, Any], params: dict[str, Any]) -> None:  # noqa: C901, PLR0912 - one for each vice
    if "exits" in BEHAVIOUR:
        os._exit(7)
    if "silent" in BEHAVIOUR:
        return
    if "floods" in BEHAVIOUR:
        while True:
            send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
    if "garbage" in BEHAVIOUR:
        sys.stdout.write("Server is ready!\n[1, 2]\n")
    if "long" in BEHAVIOUR:
        while True:
            sys.stdout.write("x" * 1_000_000)
    if "malformed" in BEHAVIOUR:
        answer(message, {"tools": [*TOOLS, {"name": "bad"}, 5]})
    elif "twice" in BEHAVIOUR:
        answer(message, {"tools": [*TOOLS, TOOLS[0]]})
    elif "confused" in BEHAVIOUR:
        send({"id": "not yours", "result": {"tools": []}})
    elif "steers" in BEHAVIOUR:
        refuse(message, -32603, "\x1b[2J\x9bgone", "\x1b[31m")
    elif "rows" in BEHAVIOUR:
        answer(message, {"tools": [{"name": "one\ntwo\x9b \ud800", "inputSchema": {"type": "object"}}]})
    elif "no-list" in BEHAVIOUR:
        answer(message, {"toolz": []})
    elif "no-result" in BEHAVIOUR:
        send({"id": message["id"], "result": "fine"})
    elif "loops" in BEHAVIOUR:
        answer(message, {"tools": TOOLS[:1], "nextCursor": "again"})
    elif "pages" in BEHAVIOUR:
        place = int(params.get("cursor", 0))
        more = {"nextCursor": str(place + 1)} if place + 1 < len(TOOLS) else {}
        answer(message, {"tools": [TOOLS[place]], **more})
    else:
        answer(message, {"tools": TOOLS})


def read(message: dict[str, Any], uri: str) -> None:
    if uri == "note://broken":
        refuse(message, -32603, "the disk is full", {"disk": "sda"})
    elif uri == "note://shapeless":
        answer(message, {"contents": "text"})
    elif uri in CONTENTS:
        answer(message, {"contents": CONTENTS[uri]})
    else:
        refuse(message, -32002, "Resource not found", {"uri": uri})


def prompt(message: dict[str, Any], params: dict[str, Any]) -> None:
    if question := QUESTIONS.get(next(iter(BEHAVIOUR), "")):
        send({"id": "q1", **question})
        reply = json.loads(sys.stdin.readline())
        result, error = reply.get("result", {}), reply.get("error", {})
        said = result.get("content") or {}
        text = said.get("name") or said.get("text") or result.get("action") or f"nobody: {error.get('message')}"
        answer(message, {"messages": [{"role": "user", "content": {"type": "text", "text": f"I am {text}."}}]})
    elif params["name"] == "talk":
        lines = [("user", "Hello"), ("assistant", "Hi")]
        answer(message, {"messages": [{"role": r, "content": {"type": "text", "text": t}} for r, t in lines]})
    else:
        text = f"How is {params['arguments']['city']}?"
        answer(message, {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})


def call(message: dict[str, Any], params: dict[str, Any]) -> None:
    arguments = params.get("arguments") or {}
    note(params["name"])
    match params["name"]:
        case "greet" if "inputResponses" not in params:
            answer(
                message,
                {"resultType": "input_required", "inputRequests": {"who": QUESTIONS["asks"]}, "requestState": "s"},
            )
        case "greet":
            said = params["inputResponses"]["who"]
            answer(message, {"content": [{"type": "text", "text": f"{params['requestState']} {json.dumps(said)}"}]})
        case "wait":
            pass
        case "add":
            answer(message, {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]})
        case "say":
            answer(message, {"content": [{"type": "text", "text": json.dumps(arguments)}]})
        case "lie":
            answer(message, {"content": [], "structuredContent": {"total": 3}})
        case "draw":
            answer(message, {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORwA="}]})
        case "break":
            answer(message, {"isError": True, "content": [{"type": "text", "text": "it broke"}]})
        case "die":
            os._exit(9)
        case name:
            refuse(message, -32602, f"Unknown tool: {name}")


def note(word: str) -> None:
    if "CALLS_FILE" in os.environ:
        with open(os.environ["CALLS_FILE"], "a") as file:  # noqa: PTH123 - as below
            file.write(f"{word}\n")


def serve_http() -> threading.Thread:
    """Serves something on HTTP that wants a POST at /mcp, and tells the address. Returns the thread that serves."""
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(405 if self.path == "/mcp" and "dashboard" not in BEHAVIOUR else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stream = sys.stdout if "stdout" in BEHAVIOUR else sys.stderr
    stream.write(f"INFO: Uvicorn running on http://127.0.0.1:{server.server_port} (Press CTRL+C to quit)\n")
    stream.flush()
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    return serving


def main() -> None:
    if BEHAVIOUR & {"http", "dashboard"}:
        serving = serve_http()
        if "http" in BEHAVIOUR:
            serving.join()
    if "stubborn" in BEHAVIOUR:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in BEHAVIOUR:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        sys.stderr.write(f"child {child.pid}\n")
        with open(os.environ["PID_FILE"], "w") as file:  # noqa: PTH123 - nothing but what is needed is imported here
            file.write(f"{os.getpid()} {child.pid}")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            handle(message)
        elif message.get("method") == "notifications/cancelled":
            note("cancelled")
    while "stubborn" in BEHAVIOUR:
        time.sleep(300)


main()

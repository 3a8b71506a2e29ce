"""A server that tries what takes a page long, or leads it elsewhere; and answers with what no schema allows."""

import json
import os
import sys
from typing import Any

ELSEWHERE = f"http://127.0.0.1:{os.environ.get('ELSEWHERE', '9')}"
LONG = 190_000
PAGE = (
    f"<!doctype html><link rel=preconnect href={ELSEWHERE}><LINK rel=dns-prefetch href={ELSEWHERE}>"
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}/'><h1>Hello</h1>"
    f"<iframe srcdoc='&lt;link rel=preconnect href={ELSEWHERE}&gt;'></iframe>"
    f"<a id=here href={ELSEWHERE}/ ping={ELSEWHERE}/>here</a> <a id=top target=_top href={ELSEWHERE}/>top</a>"
    f"<form action={ELSEWHERE}/><button id=send>send</button></form>"
)
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:h="http://www.w3.org/1999/xhtml" width="99" height="99">'
    f'<h:link rel="preconnect" href="{ELSEWHERE}"/><text y="20">Hello</text></svg>'
)
RESOURCES = {
    "page://leads": ("text/html", PAGE),
    "drawing://leads": ("image/svg+xml", DRAWING),
    "slow://divider": ("text/markdown", "|\n" + " " * LONG + "x"),
    "slow://heading": ("text/markdown", "# a" + " " * LONG + "b"),
    "slow://link": ("text/markdown", ("[a](" + " " * 19_000 + "\n\n") * 9),
    "slow://ends": ("text/markdown", ("a" + " " * 19_900 + "b\n\n") * 9),
    "slow://ticks": ("text/markdown", ("".join("`" * n + "a" for n in range(1, 190)) + "\n\n") * 9),
    "many://items": ("text/markdown", "- a\n" * (LONG // 4)),
    "many://cells": ("text/markdown", "|" * (LONG // 2) + "\n|-|\n" + "|" * (LONG // 2)),
    "deep://json": ("application/json", "[" * 50_000 + "]" * 50_000),
}
ODD: list[Any] = [None, 7, True, "text", [], {"type": None}, {"type": "image", "mimeType": 5, "data": None}]


def answer(method: str, params: dict[str, Any]) -> Any:  # noqa: PLR0911 - one for each method
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "attacker", "version": "1"},
            }
        case "tools/list":
            return {"tools": [{"name": "fine", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": ODD}
        case "prompts/get":
            return {"messages": [*ODD, {"role": 5, "content": None}]}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri} for uri in RESOURCES]}
        case "resources/read":
            kind, text = RESOURCES[params["uri"]]
            return {"contents": [{"uri": params["uri"], "mimeType": kind, "text": text}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            said = {"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked["method"], asked.get("params") or {})}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

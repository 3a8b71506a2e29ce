"""Calls of read-only tools as resources: `call://SERVER/TOOL?ARGUMENTS`.

The result of the call is the content, so that it can be subscribed to: it is polled, and compared. An argument of the
URI is a text, and becomes what the tool's schema asks for: a number, true or false, or JSON.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, unquote, urlencode

from tidings._kit.bounded_json import as_dict
from tidings.bridge.names import Json

SCHEME: Final = "call://"
_TEXTS: Final = ("text", "resource")


def call_uri(server: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns the URI of a call. Equal calls have equal URIs."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in sorted(arguments.items())}
    query = urlencode(texts, quote_via=quote)
    return f"{SCHEME}{quote(server, safe='')}/{quote(tool, safe='')}{'?' if query else ''}{query}"


def split_call(uri: str) -> tuple[str, str, dict[str, str]]:
    """Returns the server, the tool and the arguments of the URI of a call. Raises `ValueError`."""
    place, _, query = uri.removeprefix(SCHEME).partition("?")
    server, slash, tool = place.partition("/")
    if not uri.startswith(SCHEME) or not slash or not tool:
        raise ValueError(f"{uri!r} is not the URI of a call. Write {SCHEME}SERVER/TOOL?NAME=VALUE.")
    return unquote(server), unquote(tool), dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))


def arguments_for(schema: object, texts: Mapping[str, str]) -> Json:
    """Returns arguments as the schema of a tool asks for them. Raises `ValueError` for what it does not have."""
    properties = as_dict(as_dict(schema).get("properties"))
    arguments: Json = {}
    for name, text in texts.items():
        if properties and name not in properties:
            raise ValueError(f"The tool has no argument {name!r}. It has: {', '.join(properties) or 'none'}.")
        kind = as_dict(properties.get(name)).get("type", "string")
        kinds: list[Any] = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
        if "string" in kinds:
            arguments[name] = text
            continue
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            raise ValueError(f"The argument {name!r} must be {' or '.join(map(str, kinds))}, not {text!r}.") from None
    return arguments


def call_template(server: str, tool: Mapping[str, Any]) -> Json:
    """Returns the resource template for the calls of a tool."""
    names = list(as_dict(as_dict(tool.get("inputSchema")).get("properties")))
    query = f"{{?{','.join(names)}}}" if names and all(name.replace("_", "a").isalnum() for name in names) else ""
    described = str(tool.get("description") or tool.get("title") or tool["name"]).partition("\n")[0]
    return {
        "uriTemplate": f"{SCHEME}{quote(server, safe='')}/{quote(str(tool['name']), safe='')}{query}",
        "name": f"call {tool['name']}",
        "description": f"The result of the tool, as a resource that can be subscribed to: {described}",
    }


def contents_of(uri: str, result: Mapping[str, Any]) -> Json:
    """Returns the result of a call as the contents of a resource."""
    structured = result.get("structuredContent")
    if structured is not None:
        text = json.dumps(structured, indent=1, ensure_ascii=False)
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}
    blocks = cast("Sequence[Any]", result.get("content") or [])
    contents: list[Json] = []
    for block in map(as_dict, blocks):
        match block.get("type"):
            case "text":
                contents.append({"uri": uri, "mimeType": "text/plain", "text": str(block.get("text", ""))})
            case "resource":
                contents.append({**as_dict(block.get("resource")), "uri": uri})
            case "image" | "audio":
                contents.append({"uri": uri, "mimeType": block.get("mimeType"), "blob": block.get("data")})
            case _:
                contents.append({"uri": uri, "mimeType": "application/json", "text": json.dumps(block)})
    return {"contents": contents}

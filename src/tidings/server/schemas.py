"""The schemas of tools, without what goes without saying: every agent pays for each character of them."""

from typing import Any, cast

from mcp.server.mcpserver import MCPServer

from tidings.server.adapters import McpServerAdapter


def compact_tool(server: MCPServer[Any], name: str) -> None:
    """Make the schemas of one of a server's tools short."""
    tool = McpServerAdapter(server).items("tool")[name]
    tool.parameters = compact(tool.parameters)
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = compact(tool.fn_metadata.output_schema, described=False)


def compact(schema: dict[str, Any], *, described: bool = True) -> dict[str, Any]:
    """A JSON schema without what a reader can see for themselves: every agent pays for each character of it.

    Definitions stand where they are used, for clients that do not follow references.
    """
    drop = {"title", "$defs"} if described else {"title", "$defs", "description"}
    definitions = cast("dict[str, dict[str, Any]]", schema.get("$defs", {}))

    def shorter(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            # What is said beside a reference is about this use of it.
            part = definitions[part["$ref"].removeprefix("#/$defs/")] | {k: v for k, v in part.items() if k != "$ref"}
        part = _plain(part)
        return {
            key: inside(key, value) for key, value in part.items() if key not in drop and not _says_nothing(key, value)
        }

    def inside(key: str, value: Any) -> Any:
        if key == "properties":
            return {name: shorter(part) for name, part in value.items()}
        if key == "anyOf":
            return [shorter(part) for part in value]
        return (
            shorter(cast("dict[str, Any]", value))
            if key in ("items", "additionalProperties") and value not in (True, False)
            else value
        )

    return shorter(schema)


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """What may be left out, without the null that it is then: to leave it out is how one says so."""
    others = [each for each in part.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) != 1 or part.get("default", "") is not None:
        return part
    return others[0] | {key: value for key, value in part.items() if key not in ("anyOf", "default")}


def _says_nothing(key: str, value: Any) -> bool:
    return key == "default" and value in ("", None, False)
